/** One row of a list in a help: an option, an argument or a command. */
export interface HelpRow {
  readonly term: string;
  readonly description: string;
}

/** A paragraph that may be filled, or lines that stay as they are. */
export type HelpBlock =
  | { readonly kind: 'heading'; readonly text: string }
  | { readonly kind: 'paragraph'; readonly text: string }
  | { readonly kind: 'lines'; readonly lines: readonly string[] };

/** The help of a command, taken apart. */
export interface HelpText {
  /** Behind `Usage: `. */
  readonly usage: string;
  readonly description: string;
  /** Lists by heading: `Arguments`, `Options`, `Global Options`, `Commands`. */
  readonly lists: ReadonlyMap<string, readonly HelpRow[]>;
  /** What the command itself adds below. */
  readonly blocks: readonly HelpBlock[];
}

const LIST = /^(Arguments|Options|Global Options|Commands):$/;

/** Takes the printed help of a command apart, as commander lays it out. */
export function readHelp(text: string): HelpText {
  const parts = text.trim().split(/\n\n/);
  const usage = (parts.shift() ?? '').replace(/^Usage: /, '');
  const description = LIST.test(firstLine(parts[0])) ? '' : (parts.shift() ?? '');
  const lists = new Map<string, readonly HelpRow[]>();
  while (LIST.test(firstLine(parts[0]))) {
    const [heading = '', ...lines] = (parts.shift() ?? '').split('\n');
    lists.set(heading.slice(0, -1), rowsOf(lines));
  }
  return { usage, description: filled(description), lists, blocks: parts.flatMap(blocksOf) };
}

function firstLine(part: string | undefined): string {
  return part?.split('\n', 1)[0] ?? '';
}

/** Two blanks, the term, two blanks or more, the description; what is indented more belongs to the row above. */
function rowsOf(lines: readonly string[]): HelpRow[] {
  const rows: { term: string; description: string }[] = [];
  for (const line of lines) {
    const last = rows.at(-1);
    if (last !== undefined && line.startsWith('   ')) {
      last.description = `${last.description} ${line.trim()}`.trim();
      continue;
    }
    const row = line.trim();
    const gap = row.indexOf('  ');
    rows.push({
      term: gap < 0 ? row : row.slice(0, gap),
      description: gap < 0 ? '' : row.slice(gap).trim(),
    });
  }
  return rows;
}

/** Lines in a row that are indented stay as they are; others are filled; a line of capitals is a heading. */
function blocksOf(part: string): HelpBlock[] {
  const blocks: HelpBlock[] = [];
  let plain: string[] = [];
  let kept: string[] = [];
  const close = (): void => {
    if (plain.length > 0) blocks.push({ kind: 'paragraph', text: filled(plain.join('\n')) });
    if (kept.length > 0) blocks.push({ kind: 'lines', lines: kept });
    [plain, kept] = [[], []];
  };
  for (const line of part.split('\n').filter((it) => it.trim() !== '')) {
    const indented = line.startsWith(' ');
    const heading = /^[A-Z][A-Z ]+$/.test(line);
    if (heading || (indented ? plain.length > 0 : kept.length > 0)) close();
    if (heading) blocks.push({ kind: 'heading', text: line });
    else (indented ? kept : plain).push(indented ? line.replace(/^ {1,2}/, '') : line);
  }
  close();
  return blocks;
}

function filled(text: string): string {
  return text.split('\n').join(' ').trim();
}
