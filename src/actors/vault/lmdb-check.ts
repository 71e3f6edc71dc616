import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { StoreError } from './store.ts';

/*
 * LMDB maps its file into memory and trusts it: a truncated or damaged one ends the process with SIGBUS or SIGSEGV,
 * which nothing can catch. So every page that LMDB could follow is looked at first, with plain reads. Offsets are those
 * of lmdb-js's data version 2 on 64-bit little-endian machines; the names are those of mdb.c.
 */

const pageHeader = 24;
const magic = 0xbeefc0de;
const metaSize = pageHeader + 144;
const flags = { branch: 0x01, leaf: 0x02, overflow: 0x04, meta: 0x08, bigData: 0x01 };
const noPage = 0xffff_ffff_ffff_ffffn;
/** `CURSOR_STACK`: a deeper tree would overrun LMDB's own arrays. */
const deepest = 32;
/** MDB_INTEGERKEY of the free list, MDB_SAFE_RESTORE, MDB_OVERLAPPINGSYNC: all that we ever set. */
const knownFlags = 0x08 | 0x800 | 0x1000;

interface Tree {
  readonly flags: number;
  readonly depth: number;
  readonly root: bigint;
}

interface Meta {
  readonly pageSize: number;
  readonly free: Tree;
  readonly main: Tree;
  readonly lastPage: bigint;
  readonly txnId: bigint;
}

/**
 * Says whether `file` can be handed to LMDB: false if there is none yet. Reads only.
 *
 * @throws {StoreError} `store_unreadable` if it isn't one of our stores, or if it is damaged or cut short.
 */
export function checkLmdbFile(file: string): boolean {
  let fd: number;
  try {
    fd = openSync(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw unreadable(file, `it can't be opened (${(error as NodeJS.ErrnoException).code})`, error);
  }
  try {
    checkOpened(fd);
  } catch (error) {
    throw unreadable(file, error instanceof Damage ? error.message : "it can't be read", error);
  } finally {
    closeSync(fd);
  }
  return true;
}

function unreadable(file: string, why: string, cause: unknown): StoreError {
  return new StoreError(
    'store_unreadable',
    `The store ${file} can't be used: ${why}. Nothing was changed. Restore a backup into an empty data directory, or start on another directory.`,
    { cause },
  );
}

class Damage extends Error {}

function insist(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Damage(what);
}

function checkOpened(fd: number): void {
  const stat = fstatSync(fd);
  insist(stat.isFile(), 'it is not a file');
  insist(stat.size > 0, 'it is empty');
  const { size } = stat;

  function read(offset: number, length: number): Buffer {
    insist(offset + length <= size, 'it is cut short');
    const bytes = Buffer.allocUnsafe(length);
    insist(readSync(fd, bytes, 0, length, offset) === length, 'it is cut short');
    return bytes;
  }

  const first = readMeta(read(0, metaSize));
  const second = readMeta(read(first.pageSize, metaSize));
  insist(first.pageSize === second.pageSize, 'its two heads contradict each other');
  // Transaction N writes head N % 2, and is looked for there.
  insist(first.txnId % 2n === 0n && (second.txnId === 0n || second.txnId % 2n === 1n), 'its head is damaged');
  const meta = first.txnId >= second.txnId ? first : second;
  // The last pages may be free and never written; but LMDB doesn't survive a map that it can't have.
  insist(Number(meta.lastPage) * meta.pageSize < 4 * size + 2 ** 30, 'its head is damaged');

  const inUse = new Set<number>();
  walk(meta, meta.main, false);
  const freed = walk(meta, meta.free, true);
  for (const list of freed) checkFreeList(list);

  /** Visits every page of a tree; of the free list's it gives the records. */
  function walk({ pageSize, lastPage, txnId }: Meta, tree: Tree, isFreeList: boolean): Buffer[] {
    const records: Buffer[] = [];
    if (tree.root === noPage) return records;
    insist(tree.depth >= 1 && tree.depth <= deepest, 'a tree in it is too deep');
    visit(tree.root, 1);
    return records;

    function claim(page: bigint, count = 1n): number {
      insist(page >= 2n && page + count - 1n <= lastPage, 'it points outside itself');
      for (let each = page; each < page + count; each++) {
        insist(!inUse.has(Number(each)), 'a page of it is used twice');
        inUse.add(Number(each));
      }
      return Number(page) * pageSize;
    }

    function checkHeader(page: Buffer, pageNumber: bigint, what: string): void {
      insist(page.readBigUInt64LE(0) === pageNumber, what);
      // A page of a later transaction would be written to in place, where the map is read-only.
      insist(page.readBigUInt64LE(8) <= txnId, what);
    }

    function visit(pageNumber: bigint, depth: number): void {
      const page = read(claim(pageNumber), pageSize);
      const isLeaf = depth === tree.depth;
      checkHeader(page, pageNumber, 'a page of it is damaged');
      insist(page.readUInt16LE(18) === (isLeaf ? flags.leaf : flags.branch), 'a page of it is damaged');
      const lower = page.readUInt16LE(20);
      const upper = page.readUInt16LE(22);
      insist(lower <= upper && upper <= pageSize - pageHeader && lower % 2 === 0, 'a page of it is damaged');
      const count = lower / 2;
      insist(count >= (isLeaf || isFreeList ? 1 : 2), 'a page of it is damaged');
      for (let i = 0; i < count; i++) {
        const node = pageHeader + page.readUInt16LE(pageHeader + 2 * i);
        insist(node >= pageHeader + upper && node + 8 <= pageSize, 'an entry of it is damaged');
        if (isLeaf) checkLeafNode(page, node);
        else visit(childOf(page, node), depth + 1);
      }
    }

    function childOf(page: Buffer, node: number): bigint {
      insist(node + 8 + page.readUInt16LE(node + 6) <= pageSize, 'an entry of it is damaged');
      return BigInt(page.readUInt32LE(node)) | (BigInt(page.readUInt16LE(node + 4)) << 32n);
    }

    function checkLeafNode(page: Buffer, node: number): void {
      const dataSize = page.readUInt32LE(node);
      const nodeFlags = page.readUInt16LE(node + 4);
      const keySize = page.readUInt16LE(node + 6);
      const data = node + 8 + keySize;
      insist((nodeFlags & ~flags.bigData) === 0, 'an entry of it is of an unknown kind');
      insist(isFreeList ? keySize === 8 : keySize > 0, 'a key of it is damaged');
      if (nodeFlags === 0) {
        insist(data + dataSize <= pageSize, 'an entry of it is damaged');
        if (isFreeList) records.push(page.subarray(data, data + dataSize));
        return;
      }
      insist(data + 24 <= pageSize, 'an entry of it is damaged');
      const pages = page.readBigUInt64LE(data + 16);
      const needed = Math.floor((pageHeader - 1 + dataSize) / pageSize) + 1;
      insist(pages === BigInt(needed), 'a large value of it is damaged');
      const number = page.readBigUInt64LE(data);
      const offset = claim(number, pages);
      const head = read(offset, pageHeader);
      checkHeader(head, number, 'a large value of it is damaged');
      insist(page.readBigUInt64LE(data + 8) <= txnId, 'a large value of it is damaged');
      insist(head.readUInt16LE(18) === flags.overflow, 'a large value of it is damaged');
      insist(head.readUInt32LE(20) === needed, 'a large value of it is damaged');
      const value = isFreeList ? dataSize : 0;
      read(offset + pageHeader + dataSize - 1, 1);
      if (isFreeList) records.push(read(offset + pageHeader, value));
    }
  }

  /** A count, then page numbers; a negative entry gives the length of the run of pages that the next one begins. */
  function checkFreeList(record: Buffer): void {
    insist(record.length >= 8 && record.length % 8 === 0, 'its free list is damaged');
    const count = record.readBigInt64LE(0);
    insist(count >= 0n && count < BigInt(record.length / 8), 'its free list is damaged');
    for (let i = 1; i <= Number(count); i++) {
      const entry = record.readBigInt64LE(8 * i);
      const magnitude = entry < 0n ? -entry : entry;
      insist(magnitude <= meta.lastPage && magnitude !== 1n, 'its free list is damaged');
      insist(entry <= 0n || !inUse.has(Number(entry)), 'its free list holds pages that are in use');
    }
  }
}

function readMeta(page: Buffer): Meta {
  insist(page.readUInt16LE(18) === flags.meta, 'it is not a store of this program');
  insist(page.readUInt32LE(24) === magic, 'it is not a store of this program');
  insist(page.readUInt16LE(28) === 2, 'it has another data format');
  const pageSize = page.readUInt32LE(48);
  const isPowerOfTwo = (pageSize & (pageSize - 1)) === 0;
  insist(isPowerOfTwo && pageSize >= 512 && pageSize <= 65536, 'its head is damaged');
  const free = readTree(page, 48);
  const main = readTree(page, 96);
  insist((free.flags & ~knownFlags) === 0 && main.flags === 0, 'its head is damaged');
  return { pageSize, free, main, lastPage: page.readBigUInt64LE(144), txnId: page.readBigUInt64LE(152) };
}

function readTree(page: Buffer, at: number): Tree {
  return {
    flags: page.readUInt16LE(at + 4),
    depth: page.readUInt16LE(at + 6),
    root: page.readBigUInt64LE(at + 40),
  };
}
