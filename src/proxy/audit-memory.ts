/**
 * The memory that one life of a lane shares with the main thread for its audit records, so that a lane that dies takes
 * none along. Three parts:
 *
 * - words: how far the ring is written and read, and the state of each slot;
 * - slots: each holds the record of one request under way, from before anything of it goes upstream;
 * - the ring: finished lines, which the lane appends to and the main thread reads.
 *
 * What is in the ring up to `head`, and what is in a slot whose word isn't 0, is whole: words are written after what
 * they speak of. Pages that were never written to take no memory.
 */

/** Requests that a lane can have under way. */
export const slotCount = 8192;
/** Octets of a slot; not a power of two, so that slots don't all fall into the same lines of the cache. */
export const slotBytes = 8192 + 64;
/** Octets of the ring: a power of two, since positions are counted modulo 2^32. */
export const ringBytes = 4 * 2 ** 20;

/** Indices of the words. */
export const word = {
  /** Octets ever written to the ring, modulo 2^32. By the lane. */
  head: 0,
  /** Octets that the main thread is done with, modulo 2^32. */
  tail: 1,
  /** 1: the main thread was told that there is something to read, and has not looked since. */
  bell: 2,
  /** Records that there was no room for. Added to by the lane, taken away by the main thread. */
  dropped: 3,
  /** 1 + the slot whose line is being moved to the ring; 0: none is. */
  moving: 4,
  /** What `head` becomes as soon as that line counts. */
  movingTo: 5,
  /** The first slot's state: 0 free; n > 0 the head of a record of n octets; n < 0 a finished line of -n octets. */
  slots: 16,
} as const;

const wordBytes = 4 * (word.slots + slotCount);
export const slotsAt = wordBytes;
export const ringAt = slotsAt + slotCount * slotBytes;
export const auditMemoryBytes = ringAt + ringBytes;
