import type { VNode } from 'preact';
import { plainLine } from '../../../mail/terminal-safe.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { KEPT_WHY, PRUNED_WHY } from '../../../wording/prune.ts';
import type { Hold, Preview, Retention } from '../../reading/health/retention.ts';
import { Command } from '../frame.tsx';
import { Icon } from '../icons.tsx';
import { Maybe, Messages, Row, TablePanel } from './parts.tsx';

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
