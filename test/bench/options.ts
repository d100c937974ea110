import { parseArgs } from 'node:util';

export interface BenchOptions {
  readonly messages: number;
  readonly seed: number;
  /** How often each long step is repeated; the median is shown. */
  readonly runs: number;
  /** Measures memory at 5,000 and 50,000 messages as well, which takes long. */
  readonly full: boolean;
  /** Searches a made-up catalog of a million messages as well, which takes ten minutes to make. */
  readonly large: boolean;
  /** Measures nothing but searches of made-up catalogs. */
  readonly searchOnly: boolean;
  /** Measures nothing but verification, exports and rebuild, of an archive that is made by an import. */
  readonly archiveOnly: boolean;
  /** Measures nothing but the web interface, in Chromium, over a made-up catalog of that many messages. */
  readonly web: boolean;
  /** Measures nothing but restores to an IMAP server. */
  readonly restoreOnly: boolean;
  /** Measures nothing but syncs from an IMAP server. */
  readonly imapOnly: boolean;
  /** Measures nothing but off-site copies to RadosGW, and the way back. */
  readonly copyOnly: boolean;
  /** Leaves the messages, the archive and the peers' databases where they are. */
  readonly keep: boolean;
  readonly parent: string | undefined;
  /** Shows the ratios of the last ten runs, and measures nothing. */
  readonly history: boolean;
  /** Writes every figure to this file as JSON. */
  readonly json: string | undefined;
}

export const USAGE = `npm run bench -- [options]
  --messages N   messages to measure with (10000; with --web 1000000)
  --seed N       seed of the messages (1)
  --runs N       repetitions of each long step; the median is shown (3)
  --large        also searches a made-up catalog of 1,000,000 messages (ten minutes to make)
  --search-only  nothing but the searches of made-up catalogs
  --archive-only nothing but verification, exports and rebuild
  --web          nothing but the web interface in Chromium, over a made-up catalog (ten minutes for 1,000,000)
  --restore-only nothing but restores to Dovecot, against mbsync's push
  --imap-only    nothing but syncs from Dovecot, against mbsync's
  --copy-only    nothing but off-site copies to RadosGW and back, against restic
  --full         also compares memory at 5,000 and 50,000 messages
  --work DIR     where to work (the system's folder for temporary files)
  --keep         keep that work
  --json FILE    write all figures to a file
  --history      show the ratios of the last ten runs, and measure nothing
With MAILKEEP_CORPUS=DIR the messages are made from the real mail in DIR.`;

/** @throws TypeError for an unknown option, RangeError for a number that is none. */
export function parseOptions(args: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      messages: { type: 'string' },
      seed: { type: 'string', default: '1' },
      runs: { type: 'string', default: '3' },
      full: { type: 'boolean', default: false },
      large: { type: 'boolean', default: false },
      'search-only': { type: 'boolean', default: false },
      'archive-only': { type: 'boolean', default: false },
      web: { type: 'boolean', default: false },
      'restore-only': { type: 'boolean', default: false },
      'imap-only': { type: 'boolean', default: false },
      'copy-only': { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      history: { type: 'boolean', default: false },
      work: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    messages: wholeNumber('messages', values.messages ?? (values.web ? '1000000' : '10000'), 100),
    seed: wholeNumber('seed', values.seed, 0),
    runs: wholeNumber('runs', values.runs, 1),
    full: values.full,
    large: values.large,
    searchOnly: values['search-only'],
    archiveOnly: values['archive-only'],
    web: values.web,
    restoreOnly: values['restore-only'],
    imapOnly: values['imap-only'],
    copyOnly: values['copy-only'],
    keep: values.keep,
    history: values.history,
    parent: values.work,
    json: values.json,
  };
}

function wholeNumber(name: string, text: string, least: number): number {
  const value = Number(text.replaceAll(',', ''));
  if (!Number.isInteger(value) || value < least)
    throw new RangeError(`--${name} must be a whole number of at least ${least}, not "${text}"`);
  return value;
}
