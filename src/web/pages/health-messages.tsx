import { plainLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted, KEPT_WHY, PRUNED_WHY } from '../../core/text.ts';
import type {
  HeldFolder,
  HeldPages,
  Hold,
  Preview,
  QuarantinePages,
  Retention,
} from '../health.ts';
import { Command } from './frame.tsx';
import { Maybe, Messages, PageLinks, TablePanel } from './health-parts.tsx';
import { Link, Strip } from './icons.tsx';
import { Moment } from './time-band.tsx';

const WHY: Readonly<Record<string, string>> = {
  short: 'the download ended early',
  'size-disagrees': 'the size differs from the one that the service lists',
  'not-mail': 'the download is not a message',
  refused: 'the service refuses the download',
  'too-large': 'larger than the limit',
  missing: 'listed, but not there when it was requested',
};

/** Returns whether the detail of a refusal is an error code. */
function isCode(detail: string): boolean {
  return /^[a-z]+([.-][a-z0-9]+)+$/.test(detail);
}

export function QuarantineTab({ messages, from, step, all }: QuarantinePages) {
  if (all === 0)
    return (
      <Strip kind="ok" icon="shield">
        Every message was fetched completely.
      </Strip>
    );
  return (
    <>
      <p class="note">
        The service lists these messages, but they could not be fetched completely. They block
        nothing. Each "mailkeep sync" tries them again at once, the daemon after growing intervals;
        a message that is fetched leaves the list. To stop the warning about messages you know:
      </p>
      <Command>mailkeep quarantine ack --mailbox ADDRESS --folder PATH --uid N</Command>
      <TablePanel
        title={counted(all, 'incomplete message')}
        note="by folder and uid"
        rows={messages}
        columns={[
          [
            'Message',
            ({ subject, date }) => (
              <>
                <bdi>{plainLine(subject ?? '(no subject)')}</bdi>
                {date !== null && (
                  <>
                    <br />
                    <span class="small">
                      <Moment ms={date} />
                    </span>
                  </>
                )}
              </>
            ),
            'wrap',
          ],
          [
            'Place',
            ({ address, folder, uid }) => (
              <>
                <bdi>{address}</bdi> / <bdi>{folder}</bdi>, uid {uid}
              </>
            ),
            'wrap',
          ],
          ['Size', ({ size }) => bytes(size), 'r'],
          ['Since', ({ since }) => <Moment ms={since} />],
          [
            'Why',
            ({ reason, detail, acknowledged }) => (
              <>
                <bdi>
                  {WHY[reason] ?? reason}
                  {!isCode(detail) && `: ${detail}`}
                </bdi>
                {acknowledged && <span class="tag">acknowledged</span>}
              </>
            ),
            'wrap',
          ],
          ['Tries', ({ tries }) => count(tries), 'r'],
          ['Next try', ({ nextAt }) => <Maybe at={nextAt} never="with the next pass" />],
        ]}
      />
      <PageLinks path="/health/quarantine" from={from} step={step} all={all} />
    </>
  );
}

export function HeldTab({ folders, all, shown }: HeldPages) {
  if (all === 0)
    return (
      <Strip kind="ok" icon="shield">
        No deletions are pending.
      </Strip>
    );
  return (
    <>
      <p class="note">
        So many messages disappeared at the service at once that none of them is marked as deleted
        before a later sync confirms it. The messages stay in the archive either way. If you deleted
        them yourself, there is no need to wait:
      </p>
      <Command>mailkeep sync --accept-endings</Command>
      {shown < all && (
        <p class="note">
          The first {count(shown)} of {counted(all, 'message')}; "mailkeep list --held" lists all.
        </p>
      )}
      {folders.map((folder, at) => (
        <TablePanel
          key={at}
          title={
            <>
              <bdi>{folder.address}</bdi> / <bdi>{folder.folder}</bdi>:{' '}
              {counted(folder.messages.length, 'message')}
            </>
          }
          note={<SecondLook folder={folder} />}
          rows={folder.messages}
          columns={[
            ['Received', ({ date }) => <Maybe at={date} never="unknown" />],
            [
              'Sender',
              ({ from }) => <bdi>{from === null ? '' : plainLine(from.name) || from.address}</bdi>,
            ],
            ['Subject', ({ id, subject }) => <Subject id={id} subject={subject} />, 'wrap'],
          ]}
        />
      ))}
    </>
  );
}

function SecondLook({ folder: { since, lookAt } }: { folder: HeldFolder }) {
  if (since === null) return <>pending</>;
  return (
    <>
      pending since <Moment ms={since} />;{' '}
      {lookAt === null ? (
        'a later sync checks again'
      ) : (
        <>
          the first sync after <Moment ms={lookAt} /> checks again
        </>
      )}
    </>
  );
}

function Subject({ id, subject }: { id: string | null; subject: string | null }) {
  const text = <bdi>{plainLine(subject ?? '(no subject)')}</bdi>;
  if (id === null) return text;
  return <Link to={`/m/${id}`}>{text}</Link>;
}

type Policy = NonNullable<Retention['policy']>;

export function RetentionTab({ policy, deleted }: Retention) {
  return (
    <>
      <p class="note">
        <Messages {...deleted} /> messages were deleted at the service everywhere and are kept only
        here. Nothing is ever removed here unless the configuration allows it.
      </p>
      {policy === null ? (
        <Strip icon="shield">
          No configuration of this archive was found, so nothing is known of its retention.
          "mailkeep web --config FILE" shows it.
        </Strip>
      ) : (
        <>
          <Words policy={policy} />
          <Holds holds={policy.holds} all={policy.settings.hold.length} />
          <WouldRemove preview={policy.preview} />
        </>
      )}
    </>
  );
}

function Words({ policy: { settings, schedule } }: { policy: Policy }) {
  const { endedAfterDays, draftsAfterDays, rules, keepAtLeast } = settings;
  const days = (value: number): string => counted(value, 'day');
  const sentences = [
    endedAfterDays === null
      ? 'Messages that were deleted at the service are kept without a limit.'
      : `A message may be removed ${days(endedAfterDays)} after it was deleted at the service.`,
    ...(draftsAfterDays === null
      ? []
      : [
          `Versions of drafts, which were never in another folder, may be removed after ${days(draftsAfterDays)}.`,
        ]),
    ...rules.map(({ mailbox, folder, endedAfterDays: after }) => {
      const where = [
        ...(folder === undefined ? [] : [`the folder ${folder}`]),
        ...(mailbox === undefined ? [] : [`the mailbox ${mailbox}`]),
      ].join(' of ');
      const what = where === '' ? 'everything' : where;
      return after === null
        ? `Of ${what}, nothing is removed.`
        : `Of ${what}, messages may be removed ${days(after)} after they were deleted.`;
    }),
    ...(keepAtLeast === 0
      ? []
      : [`The newest ${count(keepAtLeast)} deleted messages of each folder stay, however old.`]),
    'A deletion counts only once a complete comparison of the folder at least 7 days later confirmed it.',
    schedule === null
      ? 'Nothing is removed before somebody runs "mailkeep prune --apply".'
      : `The daemon removes by its schedule, ${schedule}.`,
  ];
  return (
    <section class="panel">
      <h2>The policy</h2>
      <ul class="words">
        {sentences.map((sentence) => (
          <li key={sentence}>
            <bdi>{sentence}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Holds({ holds, all }: { holds: readonly Hold[]; all: number }) {
  if (all === 0)
    return (
      <section class="panel">
        <h2>Holds</h2>
        <p>No query and no mailbox is on hold.</p>
      </section>
    );
  return (
    <TablePanel
      title="Holds"
      note={holds.length < all ? `the first ${count(holds.length)} of ${count(all)}` : undefined}
      labelled={false}
      rows={holds}
      columns={[
        [
          'What no pruning removes',
          ({ text, isMailbox, problem }) => (
            <>
              {isMailbox ? 'mailbox ' : ''}
              <code>
                <bdi>{text}</bdi>
              </code>
              {problem !== null && (
                <p class="odd">
                  <bdi>{problem}</bdi>
                </p>
              )}
            </>
          ),
          'wrap',
        ],
        ['Messages', ({ kept }) => (kept === null ? '?' : <Messages {...kept} />), 'r'],
      ]}
    />
  );
}

function WouldRemove({ preview }: { preview: Preview }) {
  if (preview.kind === 'refused')
    return (
      <Strip kind="warn" icon="alert">
        <bdi>{preview.problem}</bdi> <bdi>{preview.hint}</bdi>
      </Strip>
    );
  if (preview.kind === 'too-many')
    return (
      <section class="panel">
        <h2>What would be removed now</h2>
        <p>
          More than {count(preview.most)} messages were deleted, which takes too long to judge for a
          page. The command lists what would be removed, and changes nothing:
        </p>
        <Command>mailkeep prune</Command>
      </section>
    );
  const { messages, bytes: size, removed, kept, list } = preview;
  if (removed.length + kept.length === 0)
    return (
      <section class="panel">
        <h2>What would be removed now</h2>
        <p>Nothing: no message was deleted everywhere.</p>
      </section>
    );
  return (
    <>
      <TablePanel
        title={`Now ${counted(messages, 'message')} would be removed, ${bytes(size)}`}
        note="this page changes nothing"
        labelled={false}
        rows={[
          ...removed.map((sum) => ({ ...sum, why: `removed: ${whyOf(PRUNED_WHY, sum.reason)}` })),
          ...kept.map((sum) => ({ ...sum, why: `kept: ${whyOf(KEPT_WHY, sum.reason)}` })),
        ]}
        columns={[
          ['', ({ why }) => why, 'wrap'],
          ['Messages', (sum) => count(sum.messages), 'r'],
          ['Bytes', (sum) => bytes(sum.bytes), 'r'],
        ]}
      />
      {messages > 0 && <Command>mailkeep prune --apply</Command>}
      {list.length > 0 && (
        <TablePanel
          title="These would be removed"
          note={
            list.length < messages
              ? `the first ${count(list.length)} of ${count(messages)}; "mailkeep prune --json" lists all`
              : undefined
          }
          rows={list}
          columns={[
            ['Subject', ({ id, subject }) => <Subject id={id} subject={subject} />, 'wrap'],
            ['Deleted', ({ endedAt }) => <Maybe at={endedAt} never="unknown" />],
            ['Size', (message) => bytes(message.size), 'r'],
            ['Why', ({ reason }) => whyOf(PRUNED_WHY, reason), 'wrap'],
          ]}
        />
      )}
    </>
  );
}

function whyOf(why: Readonly<Record<string, string>>, reason: string): string {
  return why[reason] ?? reason;
}
