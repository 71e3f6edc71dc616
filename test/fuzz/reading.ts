export type Field = readonly [name: string, value: string];

/** One message as a parser read it; latin1, a character for each byte. */
export interface Message {
  /** Method and target, or status and reason. */
  start: readonly [string, string];
  fields: Field[];
  body: string;
  trailers: Field[];
}

/** How a parser read one connection's bytes, from the first to the end of the stream. */
export interface Reading {
  messages: Message[];
  /** The message that the stream ended in, where its head was whole. */
  partial: Message | null;
  end: 'clean' | 'incomplete' | 'refused';
  /** The parser's own words where it isn't clean. */
  why: string;
}
