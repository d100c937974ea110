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

/** What could not be fetched completely, with when it is tried again. */
export function QuarantineTab({ messages, from, step, all }: QuarantinePages): VNode {
  if (all === 0) return <Fine>Nothing is in quarantine.</Fine>;
  return (
    <>
      <p class="note">
        The service shows these messages, and they could not be fetched completely. They block
        nothing. Each "mailkeep sync" tries them again at once, the daemon after growing intervals;
        a message that is fetched leaves the list. Messages that you know about can be silenced:
      </p>
      <Command>mailkeep quarantine ack --mailbox ADDRESS --folder PATH --uid N</Command>
      <TablePanel
        title={`${counted(all, 'message')} in quarantine`}
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
                {message.reason}: {message.detail}
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

/** Each message that would count as deleted, with when a second look decides. */
export function HeldTab({ folders, all, shown }: HeldPages): VNode {
  if (all === 0) return <Fine>The brake holds nothing.</Fine>;
  return (
    <>
      <p class="note">
        So many messages disappeared at the service at once that nothing is marked as deleted before
        a second look agrees. The messages stay in the archive either way. If you deleted them
        yourself, there is no need to wait:
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
  if (since === null) return <>held</>;
  return (
    <>
      held since <Moment ms={since} />;{' '}
      {lookAt === null ? (
        'a pass after brake.confirmAfter looks again'
      ) : (
        <>
          the first pass after <Moment ms={lookAt} /> looks again
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
