/** Texts from one who doesn't wait to one who may be slow. */
export interface Channel extends AsyncIterable<string> {
  push(text: string): void;
  /** The reader gets what is there, and then its end. */
  end(): void;
}

/**
 * A queue for one reader. One that falls behind by more than `limit` characters is cut off: it comes back and asks for
 * what is, rather than hold all that has been.
 */
export function createChannel(limit: number): Channel {
  let queue: string[] = [];
  let size = 0;
  let isEnded = false;
  let wake = () => {};

  function end(): void {
    isEnded = true;
    wake();
  }

  return {
    push(text) {
      if (isEnded) return;
      size += text.length;
      if (size > limit) return end();
      queue.push(text);
      wake();
    },
    end,
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const texts = queue.join('');
        queue = [];
        size = 0;
        if (texts !== '') yield texts;
        else if (isEnded) return;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    },
  };
}
