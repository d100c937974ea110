import type { VNode } from 'preact';
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
import { Fine, Maybe, Messages, PageLinks, Row, TablePanel } from './health-parts.tsx';
import { Icon } from './icons.tsx';
import { Moment } from './time-band.tsx';

const QUARANTINE_HEAD = [
  ['Message', false],
  ['Place', false],
  ['Size', true],
  ['Since', false],
  ['Why', false],
  ['Tries', true],
  ['Next try', false],
] as const;

const WHY: Readonly<Record<string, string>> = {
  short: 'the download ended early',
  'size-disagrees': 'the size differs from the one that the service lists',
  'not-mail': 'the download is not a message',
  refused: 'the service refuses the download',
  'too-large': 'larger than the limit',
  missing: 'listed, but not there when it was requested',
};

/** The detail of a refusal is the code of an error. */
function isCode(detail: string): boolean {
  return /^[a-z]+([.-][a-z0-9]+)+$/.test(detail);
}

/** Incomplete messages, with the reason and the next try. */
export function QuarantineTab({ messages, from, step, all }: QuarantinePages): VNode {
  if (all === 0) return <Fine>Every message was fetched completely.</Fine>;
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
        head={QUARANTINE_HEAD}
      >
        {messages.map((message) => (
          <Row key={`${message.address} ${message.folder} ${message.uid}`} head={QUARANTINE_HEAD}>
            <td class="wrap">
              <bdi>{plainLine(message.subject ?? '(no subject)')}</bdi>
              {message.date !== null && (
                <>
                  <br />
                  <span class="small">
                    <Moment ms={message.date} />
                  </span>
                </>
              )}
            </td>
            <td class="wrap">
              <bdi>{message.address}</bdi> / <bdi>{message.folder}</bdi>, uid {message.uid}
            </td>
            <td class="r">{bytes(message.size)}</td>
            <td>
              <Moment ms={message.since} />
            </td>
            <td class="wrap">
              <bdi>
                {WHY[message.reason] ?? message.reason}
                {!isCode(message.detail) && `: ${message.detail}`}
              </bdi>
              {message.acknowledged && <span class="tag">acknowledged</span>}
            </td>
            <td class="r">{count(message.tries)}</td>
            <td>
              <Maybe at={message.nextAt} never="with the next pass" />
            </td>
          </Row>
        ))}
      </TablePanel>
      <PageLinks path="/health/quarantine" from={from} step={step} all={all} />
    </>
  );
}

const HELD_HEAD = [
  ['Received', false],
  ['Sender', false],
  ['Subject', false],
] as const;

/** Messages whose deletion is pending, and when it is checked again. */
export function HeldTab({ folders, all, shown }: HeldPages): VNode {
  if (all === 0) return <Fine>No deletions are pending.</Fine>;
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
          head={HELD_HEAD}
        >
          {folder.messages.map((message) => (
            <HeldRow key={message.uid} message={message} />
          ))}
        </TablePanel>
      ))}
    </>
  );
}

function SecondLook({ folder: { since, lookAt } }: { readonly folder: HeldFolder }): VNode {
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

function HeldRow({
  message: { id, date, subject, from },
}: {
  readonly message: HeldFolder['messages'][number];
}): VNode {
  const text = <bdi>{plainLine(subject ?? '(no subject)')}</bdi>;
  return (
    <Row head={HELD_HEAD}>
      <td>
        <Maybe at={date} never="unknown" />
      </td>
      <td>
        <bdi>{from === null ? '' : plainLine(from.name) || from.address}</bdi>
      </td>
      <td class="wrap">
        {id === null ? (
          text
        ) : (
          <a class="link" href={`/m/${id}`}>
            {text}
          </a>
        )}
      </td>
    </Row>
  );
}

type Policy = NonNullable<Retention['policy']>;

/** What retention lets go of, in words, and what holds keep. */
export function RetentionTab({ policy, deleted }: Retention): VNode {
  return (
    <>
      <p class="note">
        <Messages {...deleted} /> messages were deleted at the service everywhere and are kept only
        here. Nothing is ever removed here unless the configuration allows it.
      </p>
      {policy === null ? (
        <p class="strip">
          <Icon name="shield" />
          <span>
            No configuration of this archive was found, so nothing is known of its retention.
            "mailkeep web --config FILE" shows it.
          </span>
        </p>
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

/** The configuration as sentences. */
function Words({ policy: { settings, schedule } }: { readonly policy: Policy }): VNode {
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

function Holds({ holds, all }: { readonly holds: readonly Hold[]; readonly all: number }): VNode {
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
      head={[
        ['What no pruning removes', false],
        ['Messages', true],
      ]}
    >
      {holds.map(({ text, isMailbox, kept, problem }, at) => (
        <tr key={at}>
          <td class="wrap">
            {isMailbox ? 'mailbox ' : ''}
            <code>
              <bdi>{text}</bdi>
            </code>
            {problem !== null && (
              <p class="odd">
                <bdi>{problem}</bdi>
              </p>
            )}
          </td>
          <td class="r">{kept === null ? '?' : <Messages {...kept} />}</td>
        </tr>
      ))}
    </TablePanel>
  );
}

const REMOVED_HEAD = [
  ['Subject', false],
  ['Deleted', false],
  ['Size', true],
  ['Why', false],
] as const;

/** What `prune` would remove now. */
function WouldRemove({ preview }: { readonly preview: Preview }): VNode {
  if (preview.kind === 'refused')
    return (
      <p class="strip warn">
        <Icon name="alert" />
        <span>
          <bdi>{preview.problem}</bdi> <bdi>{preview.hint}</bdi>
        </span>
      </p>
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
        head={[
          ['', false],
          ['Messages', true],
          ['Bytes', true],
        ]}
      >
        {removed.map((sum) => (
          <Reason key={sum.reason} {...sum} verb="removed" why={PRUNED_WHY} />
        ))}
        {kept.map((sum) => (
          <Reason key={sum.reason} {...sum} verb="kept" why={KEPT_WHY} />
        ))}
      </TablePanel>
      {messages > 0 && <Command>mailkeep prune --apply</Command>}
      {list.length > 0 && (
        <TablePanel
          title="These would be removed"
          note={
            list.length < messages
              ? `the first ${count(list.length)} of ${count(messages)}; "mailkeep prune --json" lists all`
              : undefined
          }
          head={REMOVED_HEAD}
        >
          {list.map(({ id, subject, size: each, reason, endedAt }) => (
            <Row key={id} head={REMOVED_HEAD}>
              <td class="wrap">
                <a class="link" href={`/m/${id}`}>
                  <bdi>{plainLine(subject ?? '(no subject)')}</bdi>
                </a>
              </td>
              <td>
                <Maybe at={endedAt} never="unknown" />
              </td>
              <td class="r">{bytes(each)}</td>
              <td class="wrap">{whyOf(PRUNED_WHY, reason)}</td>
            </Row>
          ))}
        </TablePanel>
      )}
    </>
  );
}

interface ReasonProps {
  readonly reason: string;
  readonly messages: number;
  readonly bytes: number;
  readonly verb: string;
  readonly why: Readonly<Record<string, string>>;
}

function Reason({ reason, messages, bytes: size, verb, why }: ReasonProps): VNode {
  return (
    <tr>
      <td class="wrap">
        {verb}: {whyOf(why, reason)}
      </td>
      <td class="r">{count(messages)}</td>
      <td class="r">{bytes(size)}</td>
    </tr>
  );
}

function whyOf(why: Readonly<Record<string, string>>, reason: string): string {
  return why[reason] ?? reason;
}
