import type { ComponentChildren, VNode } from 'preact';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import type { MailboxRow, Overview } from '../../reading/health/overview.ts';
import type { Matter } from '../../reading/matter.ts';
import { Command } from '../frame.tsx';
import { Icon } from '../icons.tsx';
import { Moment } from '../moment.tsx';
import { Ago, Fine, Messages, Row, TablePanel } from './parts.tsx';

const HEAD = [
  ['Mailbox', false],
  ['Folders', true],
  ['Messages', true],
  ['Deleted there', true],
  ['Compared', false],
] as const;

interface OverviewProps extends Overview {
  readonly now: number;
  readonly whole: boolean;
  /** Whether nothing mirrors by itself, which the line above says: nothing else needs a person. */
  readonly isUnattended: boolean;
}

/** What needs a person, then what the archive holds. */
export function OverviewTab({
  matters,
  facts,
  mailboxes,
  more,
  now,
  whole,
  isUnattended,
}: OverviewProps): VNode {
  const { verification, attachments } = facts;
  return (
    <>
      {matters.length === 0 ? (
        <Fine>{isUnattended ? 'Nothing else needs you.' : 'Nothing needs you.'}</Fine>
      ) : (
        <Matters matters={matters} />
      )}
      <dl class="facts panel">
        <Fact name="Messages">
          <a class="link" href="/mail">
            {count(facts.messages)}
          </a>
          , {bytes(facts.bytes)} of mail
        </Fact>
        {whole && <Fact name="On disk">{bytes(facts.logBytes + facts.catalogBytes)}</Fact>}
        <Fact name="Text of attachments">
          {count(attachments.done)} searchable, {count(attachments.pending)} to be read,{' '}
          {count(attachments.failed)} not readable
        </Fact>
        {whole && (
          <Fact name="Last verification">
            {verification === null ? (
              'never'
            ) : (
              <>
                <Moment ms={Date.parse(verification.at)} />: {count(verification.checked)} of{' '}
                {counted(verification.of, 'message')} read and compared with
                {verification.checked === 1 ? ' its SHA-256' : ' their SHA-256'}
              </>
            )}
          </Fact>
        )}
        <Fact name="Commit">{count(facts.commit.number)}</Fact>
      </dl>
      <TablePanel
        title="Mailboxes"
        note={more > 0 ? `and ${count(more)} more; "mailkeep status" lists all` : undefined}
        head={HEAD}
      >
        {mailboxes.map((mailbox, at) => (
          <Row key={at} head={HEAD}>
            <th scope="row">
              <bdi>{mailbox.address}</bdi>
            </th>
            <td class="r">{count(mailbox.folders)}</td>
            <td class="r">
              <Messages {...mailbox.kept} />
            </td>
            <td class="r">
              <Messages {...mailbox.deleted} />
            </td>
            <td>
              <Compared mailbox={mailbox} now={now} />
            </td>
          </Row>
        ))}
      </TablePanel>
    </>
  );
}

function Matters({ matters }: { readonly matters: readonly Matter[] }): VNode {
  return (
    <ul class="matters">
      {matters.map(({ level, title, text, command, link }) => (
        <li key={title} class={`panel ${level}`}>
          <h2>
            <Icon name="alert" />
            <bdi>{title}</bdi>
          </h2>
          <p>
            <bdi>{text}</bdi>
          </p>
          {command !== null && <Command>{`mailkeep ${command}`}</Command>}
          {link !== null && (
            <p>
              <a class="link" href={link.href}>
                {link.text}
              </a>
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function Fact({
  name,
  children,
}: {
  readonly name: string;
  readonly children: ComponentChildren;
}): VNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Compared({
  mailbox: { imported, unwatched, provenAt, complete },
  now,
}: {
  readonly mailbox: MailboxRow;
  readonly now: number;
}): VNode {
  if (imported) return <>imported from files</>;
  return (
    <>
      {provenAt === null ? 'not completely compared yet' : <Ago at={provenAt} now={now} />}
      {complete && ', complete'}
      {unwatched && ', unwatched'}
    </>
  );
}
