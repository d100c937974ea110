/** One call of the system, as `strace -f -xx` wrote it down. */
export interface SystemCall {
  readonly name: string;
  /** As written: `\x2f` in quotes, flags joined by `|`. */
  readonly args: readonly string[];
  /** −1 after a failure. */
  readonly result: number;
}

/**
 * Calls that count from where they begin. Another thread may get the number of a file that is being closed before the
 * call returns; and a sync speaks only for what was written before it began.
 */
const FROM_BEGINNING = new Set(['close', 'fsync', 'fdatasync']);

const LINE = /^(\d+) +(?:<\.\.\. (\w+) resumed>(.*)|(\w+)\((.*))$/s;
const RESULT = /\) += (-?\d+|0x[0-9a-f]+|\?)(?: .*)?$/;
const UNFINISHED = ' <unfinished ...>';

/**
 * The calls of a process and its threads in the order in which they took effect: with the end of each call, but for
 * those that count from their beginning.
 *
 * @throws Error for a line that is not understood
 */
export function systemCalls(record: string): SystemCall[] {
  const calls: (SystemCall | { text: string; name: string })[] = [];
  const begun = new Map<string, { text: string; name: string; place: number | undefined }>();
  for (const line of record.split('\n')) {
    if (line === '' || /^\d+ +(?:\+\+\+|---)/.test(line)) continue;
    const [, thread = '', resumed, end = '', name = '', rest = ''] = LINE.exec(line) ?? [];
    if (thread === '') throw new Error(`not understood: ${line.slice(0, 200)}`);
    if (resumed !== undefined) {
      const start = begun.get(thread);
      if (start?.name !== resumed) throw new Error(`resumed, not begun: ${line.slice(0, 200)}`);
      begun.delete(thread);
      const call = parsed(resumed, start.text + end);
      if (start.place === undefined) calls.push(call);
      else calls[start.place] = call;
    } else if (rest.endsWith(UNFINISHED)) {
      const start = { text: rest.slice(0, -UNFINISHED.length), name, place: undefined };
      const place = FROM_BEGINNING.has(name) ? calls.push(start) - 1 : undefined;
      begun.set(thread, { ...start, place });
    } else {
      calls.push(parsed(name, rest));
    }
  }
  // What never returned did not end before the process did.
  return calls.filter((call): call is SystemCall => 'args' in call);
}

/** Bytes of a string in `-xx` form. @throws Error for one that was cut off */
export function bytesOf(arg: string): Buffer {
  if (!/^"(?:\\x[0-9a-f]{2})*"$/.test(arg)) throw new Error(`cut off: ${arg.slice(0, 80)}`);
  return Buffer.from(arg.slice(1, -1).replaceAll('\\x', ''), 'hex');
}

export function textOf(arg: string): string {
  return bytesOf(arg).toString('utf8');
}

function parsed(name: string, text: string): SystemCall {
  const [all, value] = RESULT.exec(text) ?? [];
  if (all === undefined || value === undefined) throw new Error(`no result: ${name}(${text}`);
  const result = value === '?' ? 0 : Number(value);
  return { name, args: split(text.slice(0, -all.length)), result };
}

/** At commas that are in no brackets; strings have none, for all of their bytes are written in hexadecimal. */
function split(text: string): string[] {
  const args: string[] = [];
  let depth = 0;
  let from = 0;
  for (const { 0: mark, index } of text.matchAll(/[[{(\]}),]/g)) {
    if ('[{('.includes(mark)) depth += 1;
    else if (mark !== ',') depth -= 1;
    else if (depth === 0) {
      args.push(text.slice(from, index).trim());
      from = index + 1;
    }
  }
  args.push(text.slice(from).trim());
  return args;
}
