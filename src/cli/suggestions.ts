import type { Command } from 'commander';
import { OPERATORS } from '../search/operators.ts';

/** Words that people bring from other programs, with the commands that do what they mean. */
const COMMANDS: Readonly<Record<string, string>> = {
  backup: 'sync mirrors mailboxes, and copy updates a second copy of the archive.',
  browse: 'web shows the archive in a browser.',
  cat: 'show prints a message.',
  check: 'verify checks the archive, doctor what a sync needs, config check the configuration.',
  delete: 'forget removes messages from the archive permanently.',
  dir: 'list prints messages, status folders.',
  download: 'sync downloads new mail, and attachments --save saves attachments.',
  dump: 'export writes messages as files.',
  fetch: 'sync downloads new mail.',
  find: 'search finds messages.',
  folders: 'status lists mailboxes and folders.',
  grep: 'search finds messages.',
  info: 'status describes the archive.',
  log: 'history shows what happened to a message, and webhooks log the deliveries of a webhook.',
  logs: 'history shows what happened to a message, and webhooks log the deliveries of a webhook.',
  ls: 'list prints messages, status folders.',
  mirror: 'sync mirrors mailboxes once, and daemon keeps them mirrored.',
  open: 'show prints a message, and web shows the archive in a browser.',
  pull: 'sync downloads new mail.',
  read: 'show prints a message.',
  remove: 'forget removes messages from the archive permanently.',
  rm: 'forget removes messages from the archive permanently.',
  run: 'sync mirrors mailboxes once, and daemon keeps them mirrored.',
  serve: 'web shows the archive in a browser, and daemon keeps it up to date.',
  setup: 'init writes a configuration.',
  start: 'daemon keeps the archive up to date, and web shows it in a browser.',
  stop: 'Ctrl-C or SIGTERM stops the daemon and the web server.',
  test: 'doctor checks what a sync needs, and verify checks the archive.',
  undelete: 'list --deleted lists deleted messages, and restore puts them back.',
  update: 'sync downloads new mail.',
  version: '--version prints the version.',
  view: 'show prints a message.',
  watch: 'daemon keeps the archive up to date.',
};

const RATE =
  'The limit is rateLimit.requestsPerMinute of the configuration; "init --rate" writes it.';
const OPTIONS: Readonly<Record<string, string>> = {
  '--rate': RATE,
  '--rpm': RATE,
  '--requests-per-minute': RATE,
  '--limit-rate': RATE,
  '--token': 'Tokens are in the configuration or in a file: init --token-file, init --token-env.',
  '--archive': 'Did you mean --data?',
  '--dir': 'Did you mean --data?',
  '--output-dir': 'Did you mean --to?',
  '--out': 'Did you mean --to?',
  '--csv': 'Did you mean --format csv?',
  '--silent': 'Did you mean --quiet?',
  '--debug': 'Did you mean --verbose? MAILKEEP_DEBUG=1 prints stack traces.',
};

/** Values that an example of an operator has. */
const EXAMPLES: Readonly<Record<string, string>> = {
  ...{ folder: 'in:INBOX', mailbox: 'mailbox:anna@example.org', has: 'has:attachment' },
  ...{ before: 'before:2026-03-01', after: 'after:2026-03-01', since: 'after:2026-03-01' },
  ...{ until: 'before:2026-03-01', subject: 'subject:rent', is: 'is:unread', unread: 'is:unread' },
  ...{ deleted: 'is:deleted', attachment: 'has:attachment', attachments: 'has:attachment' },
};

/** Returns what to use instead of a command or an option that does not exist; null where nothing is known. */
export function unknownWordHint(typed: string, command: Command, program: Command): string | null {
  if (!typed.startsWith('-')) {
    if (command !== program || !Object.hasOwn(COMMANDS, typed.toLowerCase())) return null;
    return COMMANDS[typed.toLowerCase()] ?? null;
  }
  const takesQuery = command.options.some(({ long }) => long === '--query');
  const isSearch = command.name() === 'search';
  const name = typed.replace(/^--/, '').replaceAll('-', '_').toLowerCase();
  if ((isSearch || takesQuery || command.name() === 'list') && typed.startsWith('--')) {
    const example = Object.hasOwn(EXAMPLES, name) ? EXAMPLES[name] : undefined;
    const filter = example ?? (OPERATORS.has(name) ? `${name}:anna` : undefined);
    if (filter !== undefined && isSearch)
      return `A filter is part of the query: mailkeep search ${filter}`;
    if (filter !== undefined && takesQuery) return `Filter with a query: --query ${filter}`;
    if (filter !== undefined) return `Filter with a search: mailkeep search ${filter}`;
  }
  const isKnown = [command, program].some(({ options }) =>
    options.some(({ long }) => long === OPTIONS[typed]?.match(/--[a-z-]+/)?.[0]),
  );
  const hint = Object.hasOwn(OPTIONS, typed) ? OPTIONS[typed] : undefined;
  return hint === undefined || (hint.startsWith('Did you mean') && !isKnown) ? null : hint;
}
