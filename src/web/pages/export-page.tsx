import { bytes, count, counted } from '../../core/text.ts';
import type { DownloadFormat, ExportOffer } from '../exporting.ts';
import { Command, Fact, Link, Moment, Strip } from './elements.tsx';
import type { PageOf } from './page.ts';
import { Problem } from './query-box.tsx';
import { Shell } from './shell.tsx';

const FORMATS: readonly (readonly [DownloadFormat, string, string])[] = [
  [
    'zip',
    'zip',
    'One file with MAILBOX/FOLDER/NAME.eml for each place, and a manifest with every hash at its end.',
  ],
  ['mbox', 'mbox', 'One file for mail programs, in the mboxrd form, without the folders.'],
  ['eml', 'single .eml', 'The exact source. Only where the query finds one message.'],
];

const REFUSED: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'not-one': 'A single .eml holds one message, and the query finds another number of them.',
    'nothing-found': 'The query finds nothing, so there is nothing to save.',
    'too-large': 'This is more than a browser should save in one piece.',
    busy: 'Two downloads are under way already. Try again when one of them has ended.',
  }),
);

export function ExportPage({ page }: { page: PageOf<'export'> }) {
  const { frame, offer, refused } = page;
  const { query, problem } = frame;
  return (
    <Shell frame={frame} here="mail" isList>
      <div class="page export">
        <h1>Export</h1>
        {problem !== null && <Problem query={query} problem={problem} path="/export" />}
        {refused !== null && (
          <Strip kind="warn" icon="alert" role="alert">
            {REFUSED.get(refused) ?? 'The export was refused.'}
          </Strip>
        )}
        {offer !== null && <Offer page={page} offer={offer} />}
      </div>
    </Shell>
  );
}

function Offer({ page: { frame, format }, offer }: { page: PageOf<'export'>; offer: ExportOffer }) {
  const { query, past } = frame;
  const { messages, isCounted, bytes: size, isTooLarge } = offer;
  return (
    <>
      <dl class="facts panel">
        <Fact name="Query">
          <code>
            <bdi>{query.trim() === '' ? '*' : query}</bdi>
          </code>
        </Fact>
        <Fact name="Messages">
          <Link q={query}>
            {isCounted ? '' : 'more than '}
            {count(messages)}
          </Link>
          {size !== null && <>, {bytes(size)} of mail</>}
        </Fact>
        <Fact name="As of">{past === null ? 'now' : <Moment ms={past.asOf} />}</Fact>
      </dl>
      {isTooLarge ? (
        <Strip icon="alert">
          More than 50,000 messages or 10 GB are exported by the command line, which continues where
          it was interrupted:
        </Strip>
      ) : (
        <form class="panel" action="/api/export">
          <input type="hidden" name="q" value={query} />
          <fieldset>
            <legend>Format</legend>
            {FORMATS.map(([value, name, text]) => (
              <label key={value}>
                <input
                  type="radio"
                  name="format"
                  value={value}
                  checked={value === format}
                  disabled={value === 'eml' && messages !== 1}
                />
                <span>
                  <b>{name}</b> {text}
                </span>
              </label>
            ))}
          </fieldset>
          <button type="submit" class="button" disabled={messages === 0}>
            Save {counted(messages, 'message')}
          </button>
          <p class="small">
            A message in several folders is in the file once for each. A download that was cut off
            is no valid zip. Your browser lists the file among its downloads; a large one takes a
            moment to begin.
          </p>
        </form>
      )}
      <h2>The same on the command line</h2>
      {FORMATS.map(([value]) => (
        <Command key={value}>{commandLine(query, value)}</Command>
      ))}
    </>
  );
}

export function commandLine(query: string, format: DownloadFormat): string {
  const all = query.trim() === '' ? '*' : query;
  const quoted = `'${all.replaceAll("'", `'\\''`)}'`;
  const to = format === 'zip' ? 'mail.zip' : 'mail';
  return `mailkeep export --query ${quoted} --with-deleted --format ${format} --to ${to}`;
}
