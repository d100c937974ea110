import type { LogFile } from '../../../src/archive/file-system.ts';
import { bytesOf } from './system-calls.ts';

/** What a call did to the disk, with the path that it is about; undefined for a call that did nothing to it. */
export type DiskChange = { readonly what: string; readonly path: string } | undefined;

/** What a descriptor stands for. */
export interface OpenFile {
  readonly path: string;
  readonly file: LogFile;
  readonly appends: boolean;
  /** Where the next write without a position goes. */
  offset: number;
}

export async function write(
  { path: file, file: target }: OpenFile,
  bytes: Buffer,
  taken: number,
  at: number,
): Promise<DiskChange> {
  await target.write(bytes.subarray(0, taken), at);
  return { what: 'write', path: file };
}

/** The bytes of several strings in one argument. */
export function vectors(arg: string): Buffer {
  const pieces = [...arg.matchAll(/iov_base=("[^"]*"(?:\.\.\.)?)/g)];
  return Buffer.concat(pieces.map(([, piece = '']) => bytesOf(piece)));
}

/** `[0] => [4096]`, or NULL where the file's own offset counts. */
export function positionIn(arg: string): number | undefined {
  return arg === 'NULL' ? undefined : Number(/\d+/.exec(arg)?.[0]);
}
