import { type SystemCall, textOf } from './system-calls.ts';

/** Calls that may be about our files and do no harm. */
const HARMLESS: Readonly<Record<string, (text: string) => boolean>> = {
  mmap: (text) => !(text.includes('PROT_WRITE') && text.includes('MAP_SHARED')),
  clone: (text) => text.includes('CLONE_THREAD'),
  clone3: (text) => text.includes('CLONE_THREAD'),
  fcntl: (text) => !text.includes('F_DUPFD'),
  ioctl: (text) => !text.includes('FICLONE'),
  // libuv always has a queue for epoll_ctl; the one that files would go through is polled by the kernel.
  io_uring_setup: (text) => /\{flags=(?:0x10000|IORING_SETUP_NO_SQARRAY)[ ,]/.test(text),
};
/** Calls whatever they are about. */
const BEHIND_OUR_BACK = new Set(['clone', 'clone3', 'fork', 'vfork', 'io_uring_setup']);

/**
 * Refuses what would change files below `root` unseen: other processes, memory shared with a file, queues of calls,
 * further names of a file or a descriptor, and calls that no replay knows.
 *
 * @param isOpen whether a descriptor is one of a file or folder below `root`
 */
export function refuseUnseen(
  { name, args }: SystemCall,
  root: string,
  isOpen: (fd: number) => boolean,
): void {
  const text = args.map((arg) => (arg.startsWith('"') ? textOf(arg) : arg)).join(', ');
  const ours = text.includes(root) || isOpen(Number(args[name === 'mmap' ? 4 : 0]));
  if ((ours || BEHIND_OUR_BACK.has(name)) && HARMLESS[name]?.(text) !== true) {
    throw new Error(`not followed: ${name}(${text.slice(0, 300)})`);
  }
}
