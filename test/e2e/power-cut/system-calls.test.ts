import { expect, test } from 'vitest';
import { bytesOf, systemCalls, textOf } from './system-calls.ts';

/** As `strace -xx` writes a string. */
const hex = (text: string): string =>
  `"${[...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}"`;

test('calls of threads, some of them cut in two, come in the order in which they took effect', () => {
  const record = [
    `10  openat(AT_FDCWD, ${hex('/a, (b)')}, O_RDWR|O_CREAT, 0600) = 4`,
    `10  pwrite64(4, ${hex('of ten')}, 6, 4096 <unfinished ...>`,
    '11  fdatasync(5 <unfinished ...>',
    '12  close(6 <unfinished ...>',
    `12  <... close resumed>)              = 0`,
    '10  <... pwrite64 resumed>)           = 6',
    `11  <... fdatasync resumed>)          = 0`,
    `13  unlink(${hex('/gone')}) = -1 ENOENT (No such file or directory)`,
    '13  mmap(NULL, 32768, PROT_READ, MAP_SHARED, 7, 0) = 0x7f21ca034000',
    `13  writev(8, [{iov_base=${hex('x')}, iov_len=1}, {iov_base=${hex('y')}, iov_len=1}], 2) = 2`,
    '13  read(9 <unfinished ...>',
    '13  +++ exited with 0 +++',
    '',
  ].join('\n');
  const calls = systemCalls(record);
  expect(calls.map(({ name, args, result }) => [name, args.length, result])).toEqual([
    ['openat', 4, 4],
    ['fdatasync', 1, 0],
    ['close', 1, 0],
    ['pwrite64', 4, 6],
    ['unlink', 1, -1],
    ['mmap', 6, 0x7f21ca034000],
    ['writev', 3, 2],
  ]);
  expect(textOf(calls[0]?.args[1] ?? '')).toBe('/a, (b)');
  expect(bytesOf(calls[3]?.args[1] ?? '')).toEqual(Buffer.from('of ten'));
  expect(calls[3]?.args[3]).toBe('4096');
});

test('what is not understood, or was cut off, is an error', () => {
  expect(() => systemCalls('strace: something went wrong')).toThrow('not understood');
  expect(() => systemCalls('10  <... write resumed>) = 3')).toThrow('not begun');
  expect(() => bytesOf('"\\x61\\x62"...')).toThrow('cut off');
});
