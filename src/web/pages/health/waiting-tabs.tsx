import type { VNode } from 'preact';
import { plainLine } from '../../../mail/terminal-safe.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import type { HeldFolder, HeldPages, QuarantinePages } from '../../reading/health/waiting.ts';
import { Command } from '../frame.tsx';
import { Moment } from '../moment.tsx';
import { Fine, Maybe, PageLinks, Row, TablePanel } from './parts.tsx';

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
