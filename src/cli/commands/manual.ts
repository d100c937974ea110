import packageJson from '../../../package.json' with { type: 'json' };
import { COMMANDS } from '../commands.ts';
import type { CommandEntry, Register } from '../context.ts';
import { parseCommandLine } from '../program.ts';

export const register: Register = (command, run) => {
  command.action(() =>
    run(async ({ output }) => {
      await output.bytes(Buffer.from(await manualPage(COMMANDS)));
    }),
  );
};

interface HelpRow {
  readonly term: string;
  readonly description: string;
}

/** A paragraph to wrap, or preformatted lines. */
type HelpBlock =
  | { readonly kind: 'heading'; readonly text: string }
  | { readonly kind: 'paragraph'; readonly text: string }
  | { readonly kind: 'lines'; readonly lines: readonly string[] };

const LIST = /^(Arguments|Options|Global Options|Commands):$/;

/**
 * Parses a command's help as printed by Commander. `lists` is keyed by heading: `Arguments`, `Options`, `Global
 * Options`, `Commands`.
 */
export function readHelp(text: string) {
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

/** Parses rows of two spaces, a term, two or more spaces and a description. Lines indented further continue a row. */
function rowsOf(lines: readonly string[]): HelpRow[] {
  const rows = lines
    .join('\n')
    .replace(/\n {3,}/g, '  ')
    .split('\n');
  return rows.map((row) => {
    const [term = '', ...description] = row.trim().split(/ {2,}/);
    return { term, description: description.join(' ') };
  });
}

/** Keeps consecutive indented lines unchanged and wraps the others. An uppercase line is a heading. */
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

/** Escapes text for man(7), so that it cannot contain requests or escapes. */
export function roffText(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('~', '\\(ti')
    .replaceAll('^', '\\(ha')
    .replaceAll('`', '\\(ga')
    .replaceAll("'", '\\(aq')
    .replaceAll('"', '\\(dq')
    .replace(/[^\0-\x7f]/gu, (letter) => {
      const code = letter.codePointAt(0) ?? 0;
      return `\\[u${code.toString(16).toUpperCase().padStart(4, '0')}]`;
    });
  // roff would read a leading dot or apostrophe as a request.
  return /^\./.test(escaped) ? `\\&${escaped}` : escaped;
}

function roffRows(rows: readonly HelpRow[]): string[] {
  return rows.flatMap(({ term, description }) => [
    '.TP',
    `.B ${roffText(term)}`,
    roffText(description),
  ]);
}

function roffBlocks(blocks: readonly HelpBlock[], heading: '.SH' | 'bold'): string[] {
  return blocks.flatMap((block): string[] => {
    if (block.kind === 'lines') {
      return ['.PP', '.RS 2', '.nf', ...block.lines.map(roffText), '.fi', '.RE'];
    }
    const text = roffText(block.text);
    if (block.kind === 'paragraph') return ['.PP', text];
    return heading === '.SH' ? [`.SH ${text}`] : ['.PP', `.B ${text}`];
  });
}

const FILES = rowsOf([
  './config.json  in the current folder',
  '$XDG_CONFIG_HOME/mailkeep/config.json  of the user; ~/.config without the variable',
  '/etc/mailkeep/config.json  of the machine',
]);

export async function manualPage(commands: readonly CommandEntry[]): Promise<string> {
  const top = await helpOf([], commands);
  const sections = sectionsOf(top.blocks);
  const shared = JSON.stringify(sections.get('EXIT STATUS') ?? []);
  const pages = await Promise.all(
    commands.map(({ name }) => commandPart([name], commands, shared)),
  );
  const lines = [
    `.TH MAILKEEP 1 "" "mailkeep ${packageJson.version}" "mailkeep"`,
    // Hyphenation and justification would make commands and options hard to find and copy.
    '.nh',
    '.ad l',
    '.SH NAME',
    `mailkeep \\- ${roffText(packageJson.description.replace(/\.$/, ''))}`,
    '.SH SYNOPSIS',
    `.B ${roffText(top.usage)}`,
    '.SH DESCRIPTION',
    roffText(top.description),
    '.SH OPTIONS',
    'Write these before or after any command.',
    ...roffRows(top.lists.get('Options') ?? []),
    '.SH COMMANDS',
    ...pages.flat(),
    ...roffBlocks(top.blocks, '.SH'),
    '.SH FILES',
    'The configuration is the first of these that exists, unless one is named:',
    ...roffRows(FILES),
    '.SH SEE ALSO',
    'The folder docs of the package: operations, search, export, verification, retention, daemon and api.',
  ];
  return `${lines.join('\n')}\n`;
}

/** Returns a command's options and help text, followed by its subcommands. */
async function commandPart(
  names: readonly string[],
  commands: readonly CommandEntry[],
  shared: string,
): Promise<string[]> {
  const { usage, description, lists, blocks } = await helpOf(names, commands);
  const below = (lists.get('Commands') ?? []).map(({ term }) => term.split(' ')[0] ?? '');
  const parts = await Promise.all(
    below.map((name) => commandPart([...names, name], commands, shared)),
  );
  const options = (lists.get('Options') ?? []).filter(({ term }) => !term.includes('--help'));
  const heading = names.length === 1 ? '.SS' : '.PP\n.B';
  return [
    `${heading} ${roffText(usage).replaceAll('|', '|\\:')}`,
    ...(names.length === 1 ? [] : ['.br']),
    roffText(`${description.charAt(0).toUpperCase()}${description.slice(1)}.`),
    ...roffRows([...(lists.get('Arguments') ?? []), ...options]),
    ...roffBlocks(withoutShared(blocks, shared), 'bold'),
    ...parts.flat(),
  ];
}

async function helpOf(names: readonly string[], commands: readonly CommandEntry[]) {
  const request = await parseCommandLine([...names, '--help'], commands);
  if (request.kind !== 'print') throw new Error(`${names.join(' ')} --help printed nothing`);
  return readHelp(request.text);
}

/** Drops the EXIT STATUS section if it is the one shared by all commands. */
function withoutShared(blocks: readonly HelpBlock[], shared: string): HelpBlock[] {
  return [...sectionsOf(blocks)]
    .filter(([name, section]) => name !== 'EXIT STATUS' || JSON.stringify(section) !== shared)
    .flatMap(([, section]) => section);
}

/** Groups blocks by heading. Blocks before the first heading are keyed by the empty string. */
function sectionsOf(blocks: readonly HelpBlock[]): Map<string, HelpBlock[]> {
  const sections = new Map<string, HelpBlock[]>();
  let name = '';
  for (const block of blocks) {
    if (block.kind === 'heading') name = block.text;
    sections.set(name, [...(sections.get(name) ?? []), block]);
  }
  return sections;
}
