import type { VNode } from 'preact';
import type {
  ArchiveStatus,
  FolderStatus,
  MailboxStatus,
} from '../../engine/status/archive-status.ts';
import { isImported } from '../../mail/imported.ts';
import { bytes, count, counted, span } from '../../wording/amounts.ts';
import type { Matter } from '../reading/matters.ts';
import { filterText, pageAddress } from '../reading/query-text.ts';
import { Command } from './frame.tsx';
import { Icon } from './icons.tsx';
import { Moment } from './moment.tsx';
import { Shell, type ShellProps } from './shell.tsx';

export interface HealthPageProps
  extends Omit<ShellProps, 'children' | 'here' | 'title' | 'matters'> {
  readonly status: ArchiveStatus;
  readonly found: readonly Matter[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** How the archive is: what needs a person first, then each mailbox with its folders. */
export function HealthPage({ status, found, now, ...frame }: HealthPageProps): VNode {
  const { verification } = status;
  return (
    <Shell {...frame} matters={found.length} here="health" title="Health">
      <div class="page">
        <h1>Health</h1>
        {found.length === 0 ? (
          <p class="strip ok">
            <Icon name="shield" />
            <span>Nothing needs you.</span>
          </p>
        ) : (
          <ul class="matters">
            {found.map(({ level, title, text, command }) => (
              <li key={title} class={`panel ${level}`}>
                <h2>
                  <Icon name="alert" />
                  <bdi>{title}</bdi>
                </h2>
                <p>
                  <bdi>{text}</bdi>
                </p>
                {command !== null && <Command>{`mailkeep ${command}`}</Command>}
              </li>
            ))}
          </ul>
        )}
        <dl class="facts panel">
          <Fact
            name="Messages"
            value={`${count(status.messages)}, ${bytes(status.bytes)} of mail`}
          />
          <Fact name="On disk" value={bytes(status.logBytes + status.catalogBytes)} />
          <Fact
            name="Text of attachments"
            value={`${count(status.attachments.done)} searchable, ${count(status.attachments.pending)} to be read, ${count(status.attachments.failed)} not readable`}
          />
          <div>
            <dt>Last verification</dt>
            <dd>
              {verification === null ? (
                'never'
              ) : (
                <>
                  <Moment ms={Date.parse(verification.at)} />: {count(verification.checked)} of{' '}
                  {counted(verification.of, 'message')} read back
                </>
              )}
            </dd>
          </div>
          <Fact name="Commit" value={count(status.commit.number)} />
        </dl>
        {status.mailboxes.map((mailbox) => (
          <Mailbox
            key={`${mailbox.host}/${mailbox.resourceId}`}
            mailbox={mailbox}
            single={status.mailboxes.length === 1}
            now={now}
          />
        ))}
      </div>
    </Shell>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }): VNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

interface OfMailbox {
  readonly mailbox: MailboxStatus;
  readonly single: boolean;
  readonly now: number;
}

function Mailbox({ mailbox, single, now }: OfMailbox): VNode {
  const inBox = filterText('mailbox', mailbox.address);
  const imported = isImported(mailbox);
  return (
    <section class="panel">
      <h2>
        <bdi>{mailbox.address}</bdi>
        <small>
          {imported
            ? 'imported from files'
            : mailbox.provenAt === null
              ? 'not completely compared yet'
              : `compared ${ago(mailbox.provenAt, now)}${mailbox.complete ? ', complete' : ''}`}
          {mailbox.unwatched && ', unwatched'}
        </small>
      </h2>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Folder</th>
              <th scope="col" class="r">
                Places
              </th>
              <th scope="col" class="r">
                Unread
              </th>
              <th scope="col" class="r">
                Deleted there
              </th>
              <th scope="col" class="r">
                Quarantine
              </th>
              <th scope="col" class="r">
                Held
              </th>
              <th scope="col">Compared</th>
            </tr>
          </thead>
          <tbody>
            {mailbox.folders.map((folder) => (
              <tr key={folder.folder}>
                <th scope="row">
                  <a
                    class="link"
                    href={pageAddress('/mail', {
                      q: `${single ? '' : `${inBox} `}${filterText('in', folder.folder)}`,
                    })}
                  >
                    <bdi>{folder.folder}</bdi>
                  </a>
                </th>
                <td class="r">{count(folder.messages)}</td>
                <td class="r">{some(folder.unread)}</td>
                <td class="r">{some(folder.ended)}</td>
                <td class="r">{some(folder.quarantined)}</td>
                <td class="r">{some(folder.held)}</td>
                <td>{imported ? '' : proofText(folder, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function some(value: number): string {
  return value === 0 ? '' : count(value);
}

function proofText({ provenAt, complete, unwatched }: FolderStatus, now: number): string {
  const proof = provenAt === null ? 'never' : ago(provenAt, now);
  return [
    proof,
    ...(complete === false ? ['not complete'] : []),
    ...(unwatched ? ['unwatched'] : []),
  ].join(', ');
}

function ago(at: string, now: number): string {
  return `${span(Math.max(0, now - Date.parse(at)))} ago`;
}
