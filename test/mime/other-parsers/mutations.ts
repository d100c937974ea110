import type { Seeded } from '../../bench/seeded.ts';

const ENCODINGS = ['7bit', '8bit', 'binary', 'base64', 'quoted-printable', 'x-unknown', ''];
const LINE_ENDS = ['\r\n', '\n', '\r', ''];
/** One in so many line ends is CR CR LF, which files from other systems rarely have. */
const RARE = 40;

/** Damages a message in one way, or in two: lines that give it its structure go, come twice, or move. */
export function mutate(source: Buffer, random: Seeded): { source: Buffer; done: string } {
  const lines = source.toString('latin1').match(/[^\r\n]*(?:\r\n|\n|\r|$)/g) ?? [];
  const done: string[] = [];
  for (let times = random.below(4) === 0 ? 2 : 1; times > 0; times--)
    done.push(once(lines, random));
  return { source: Buffer.from(lines.join(''), 'latin1'), done: done.join(', ') };
}

function once(lines: string[], random: Seeded): string {
  const at = structural(lines, random);
  const line = lines[at] ?? '';
  const way = random.below(6);
  if (way === 0) {
    lines.splice(at, 1);
    return `remove ${at}`;
  }
  if (way === 1) {
    lines.splice(at, 0, line);
    return `double ${at}`;
  }
  if (way === 2) {
    lines.splice(at, 1);
    const to = random.below(lines.length);
    lines.splice(to, 0, line);
    return `move ${at} to ${to}`;
  }
  if (way === 3) {
    const encoding = ENCODINGS[random.below(ENCODINGS.length)] ?? '';
    const fields = lines.flatMap((text, i) => (/^content-transfer/i.test(text) ? [i] : []));
    const field = fields[random.below(fields.length)];
    if (field !== undefined) lines[field] = `Content-Transfer-Encoding: ${encoding}\r\n`;
    return `encoding ${field} ${encoding}`;
  }
  const common = LINE_ENDS[random.below(LINE_ENDS.length)] ?? '';
  const lineEnd = random.below(RARE) === 0 ? '\r\r\n' : common;
  if (way === 4 && lineEnd !== '') {
    for (const [i, text] of lines.entries())
      if (i < lines.length - 1) lines[i] = text.replace(/[\r\n]*$/, lineEnd);
    return `all lines end with ${JSON.stringify(lineEnd)}`;
  }
  lines[at] = line.replace(/[\r\n]*$/, lineEnd);
  return `line ${at} ends with ${JSON.stringify(lineEnd)}`;
}

/** A field, a delimiter or an empty line. */
function structural(lines: readonly string[], random: Seeded): number {
  for (;;) {
    const at = random.below(lines.length);
    if (/^(?:[\w-]+:|\s|--)/.test(lines[at] ?? '')) return at;
  }
}
