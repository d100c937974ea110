import packageJson from '../../../../package.json' with { type: 'json' };
import { parseCommandLine } from '../../program.ts';
import type { CommandEntry } from '../../reading-commands.ts';
import { type HelpBlock, type HelpText, readHelp } from './help-text.ts';
import { roffBlocks, roffRows, roffText } from './roff.ts';

/** Returns the man page: what every command's help says, in one place. The same program gives the same bytes. */
export async function manualPage(commands: readonly CommandEntry[]): Promise<string> {
  const top = await helpOf([], commands);
  const sections = sectionsOf(top.blocks);
  const shared = JSON.stringify(sections.get('EXIT STATUS') ?? []);
  const pages = await Promise.all(
    commands.map(({ name }) => commandPart([name], commands, shared)),
  );
  const lines = [
    `.TH MAILKEEP 1 "" "mailkeep ${packageJson.version}" "mailkeep"`,
    // Commands and options are to be found and copied: neither hyphenated nor stretched.
    '.nh',
    '.ad l',
    '.SH NAME',
    `mailkeep \\- ${roffText(packageJson.description.replace(/\.$/, ''))}`,
    '.SH SYNOPSIS',
    `.B ${roffText(top.usage)}`,
    '.SH DESCRIPTION',
    roffText(top.description),
    '.SH OPTIONS',
    'These stand before or after any command.',
    ...roffRows(top.lists.get('Options') ?? []),
    '.SH COMMANDS',
    ...pages.flat(),
    ...roffBlocks(top.blocks, '.SH'),
    '.SH FILES',
    'The configuration is the first of these that exists, unless one is named:',
    ...roffRows([
      { term: './config.json', description: 'in the current folder' },
      {
        term: '$XDG_CONFIG_HOME/mailkeep/config.json',
        description: 'of the user; ~/.config without the variable',
      },
      { term: '/etc/mailkeep/config.json', description: 'of the machine' },
    ]),
    '.SH SEE ALSO',
    'The folder docs of the package: operations, search, export, verification, retention, daemon and api.',
  ];
  return `${lines.join('\n')}\n`;
}

/** A command with its options and what its help adds; commands below it follow. */
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
    `${heading} ${roffText(usage)}`,
    ...(names.length === 1 ? [] : ['.br']),
    roffText(sentence(description)),
    ...roffRows([...(lists.get('Arguments') ?? []), ...options]),
    ...roffBlocks(withoutShared(blocks, shared), 'bold'),
    ...parts.flat(),
  ];
}

async function helpOf(
  names: readonly string[],
  commands: readonly CommandEntry[],
): Promise<HelpText> {
  const request = await parseCommandLine([...names, '--help'], commands);
  if (request.kind !== 'print') throw new Error(`${names.join(' ')} --help printed nothing`);
  return readHelp(request.text);
}

/** The part EXIT STATUS stands once where it is the same for all. */
function withoutShared(blocks: readonly HelpBlock[], shared: string): HelpBlock[] {
  return [...sectionsOf(blocks)]
    .filter(([name, section]) => name !== 'EXIT STATUS' || JSON.stringify(section) !== shared)
    .flatMap(([, section]) => section);
}

/** Blocks by the heading that they stand below; empty for those before the first. */
function sectionsOf(blocks: readonly HelpBlock[]): Map<string, HelpBlock[]> {
  const sections = new Map<string, HelpBlock[]>();
  let name = '';
  for (const block of blocks) {
    if (block.kind === 'heading') name = block.text;
    sections.set(name, [...(sections.get(name) ?? []), block]);
  }
  return sections;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
