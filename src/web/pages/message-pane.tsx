import type { ComponentChildren, VNode } from 'preact';
import type { SearchHit } from '../../catalog/search/hit.ts';
import { bytes, count, counted } from '../../wording/amounts.ts';
import { filterText, pageAddress } from '../reading/query-text.ts';
import { FRAME_SANDBOX } from '../server/security-headers.ts';
import { Icon } from './icons.tsx';
import { senderText } from './mail-row.tsx';
import { Attachments, Proof, Remote } from './message-parts.tsx';
import { type MessagePaneProps, VIEWS, type View } from './message-props.ts';
import { History, Source } from './message-record.tsx';
import { Text } from './message-text.tsx';
import { Moment } from './moment.tsx';

const TABS: Readonly<Record<View, string>> = {
  thread: 'Conversation',
  plain: 'Plain',
  html: 'HTML',
  headers: 'Headers',
  source: 'Source',
  history: 'History',
};

/** Header fields on one page: a header of a mebibyte can have a hundred thousand. */
const MOST_FIELDS = 1_000;

/** A message with its head, in one of six views. */
export function MessagePane(props: MessagePaneProps): VNode {
  const { id, conversation, content, address, back, read } = props;
  const { line } = conversation.own;
  const ended = line.endedAt === null ? [] : [line];
  return (
    <>
      <header class="rhead">
        <a class="back" href={back}>
          <Icon name="back" />
          Back to the list
        </a>
        <h1>
          <bdi>{line.subject ?? '(no subject)'}</bdi>
        </h1>
        <div class="rsub">
          <Places line={line} />
        </div>
        <nav class="tabs" aria-label="Views of the message">
          {VIEWS.map((view) => (
            <a
              key={view}
              href={address(id, view)}
              aria-current={content.view === view ? 'page' : undefined}
            >
              {TABS[view]}
            </a>
          ))}
          <span class="spacer" />
          <a class="btn quiet" href={`/m/${id}/source`} download>
            <Icon name="save" />
            .eml
          </a>
        </nav>
      </header>
      <section class={`rbody view-${content.view}`} aria-label={TABS[content.view]} tabindex={0}>
        {ended.map(({ endedAt }) => (
          <p key="ended" class="strip ended">
            <Icon name="past" />
            <span>
              The service deleted this message on <Moment ms={Date.parse(endedAt ?? '')} />. It is
              kept only here{read.damage === null && ', complete'}.
            </span>
          </p>
        ))}
        <Content {...props} />
      </section>
    </>
  );
}

function Places({ line }: Pick<SearchHit, 'line'>): VNode {
  const [first, ...more] = line.places;
  return (
    <>
      {first !== undefined && (
        <a
          class="path"
          href={pageAddress('/mail', {
            q: `${filterText('mailbox', first.mailbox)} ${filterText('in', first.folder)}`,
          })}
        >
          <Icon name="folder" />
          <bdi>
            {first.mailbox} / {first.folder}
          </bdi>
        </a>
      )}
      {more.length > 0 && <span class="faint">and {counted(more.length, 'other place')}</span>}
      <span class="faint">· {bytes(line.size)}</span>
    </>
  );
}

function Content(props: MessagePaneProps): VNode {
  const { id, content, read, conversation } = props;
  if (content.view === 'history') return <History lines={content.lines} />;
  if (read.damage !== null)
    return (
      <>
        <div class="strip bad" role="alert">
          <Icon name="alert" />
          <div>
            <p>
              <strong>These bytes are not what was stored.</strong> <bdi>{read.damage.message}</bdi>
            </p>
            <p>What the catalog knows of the message stands above and under History.</p>
            <p class="mono">mailkeep verify --repair --data {shellWord(props.dataDir)}</p>
          </div>
        </div>
        <Around {...props}>{null}</Around>
      </>
    );
  const { reading } = read;
  switch (content.view) {
    case 'headers':
      return (
        <>
          <table class="headers">
            <tbody>
              {reading.headers.slice(0, MOST_FIELDS).map(({ name, value }, i) => (
                <tr key={i}>
                  <th scope="row">
                    <bdi>{name}</bdi>
                  </th>
                  <td>
                    <bdi>{value}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {reading.headers.length > MOST_FIELDS && (
            <p class="small">The rest of the fields is left out; the source has all of them.</p>
          )}
          <Proof {...props} />
        </>
      );
    case 'source':
      return <Source {...props} window={content.window} />;
    case 'html':
      return (
        <>
          <Remote remote={content.remote} />
          {reading.html === null || !content.isReadable ? (
            <p class="empty">
              {reading.html === null
                ? 'This message has no HTML.'
                : 'The HTML of this message could not be read. The source has it.'}
            </p>
          ) : (
            <iframe
              class="html"
              title="The HTML of the message"
              src={`/m/${id}/html`}
              sandbox={FRAME_SANDBOX}
              referrerpolicy="no-referrer"
            />
          )}
          <Proof {...props} />
        </>
      );
    case 'plain':
      return (
        <>
          <Text pieces={content.text} folded={false} />
          <Proof {...props} />
        </>
      );
    case 'thread':
      return (
        <Around {...props}>
          <article class="msg" aria-label="The message">
            <header class="mhead">
              <span class="face big" aria-hidden="true">
                {initials(senderText(conversation.own.line.from))}
              </span>
              <div>
                <p class="who">
                  <bdi>{reading.from}</bdi>
                </p>
                <Recipients name="to" value={reading.to} />
                <Recipients name="cc" value={reading.cc} />
                <Recipients name="bcc" value={reading.bcc} />
              </div>
              {conversation.own.line.date !== null && (
                <Moment ms={Date.parse(conversation.own.line.date)} />
              )}
            </header>
            {reading.reason !== null && (
              <p class="strip warn">
                <Icon name="alert" />
                <span>
                  This message could not be read to its end ({reading.reason}). The source is
                  complete.
                </span>
              </p>
            )}
            <Text pieces={content.text} folded />
            {reading.truncated && (
              <p class="small">The rest of the text is left out; the source has all of it.</p>
            )}
            <Attachments {...props} />
            <Proof {...props} />
          </article>
        </Around>
      );
  }
}

/** The other messages of a conversation, before and behind the one that is open. */
function Around({
  conversation: { all, own },
  address,
  children,
}: MessagePaneProps & { readonly children: ComponentChildren }): VNode {
  const at = all.indexOf(own);
  const part = (hits: readonly SearchHit[]): VNode | null => {
    if (hits.length === 0) return null;
    const folds = hits.map(({ line }) => (
      <a
        key={line.id}
        class={line.endedAt === null ? 'fold' : 'fold ended'}
        href={address(line.id, 'thread')}
      >
        <span class="face" aria-hidden="true">
          {initials(senderText(line.from))}
        </span>
        <span class="who">
          <bdi>{senderText(line.from)}</bdi>
        </span>
        <span class="snip">
          <bdi>{line.snippet}</bdi>
        </span>
        {line.date !== null && <Moment ms={Date.parse(line.date)} />}
      </a>
    ));
    if (folds.length <= FOLDED) return <>{folds}</>;
    const ended = hits.filter(({ line }) => line.endedAt !== null).length;
    return (
      <details class="folds">
        <summary>
          {counted(folds.length, 'more message')}
          {ended > 0 && `, ${count(ended)} of them deleted at the service`}
        </summary>
        {folds}
      </details>
    );
  };
  return (
    <>
      {part(all.slice(0, at))}
      {children}
      {part(all.slice(at + 1))}
    </>
  );
}

/** Messages in a row that are folded into one line. */
const FOLDED = 3;
function Recipients({
  name,
  value,
}: {
  readonly name: string;
  readonly value: string;
}): VNode | null {
  if (value === '') return null;
  return (
    <p class="to">
      {name} <bdi>{value}</bdi>
    </p>
  );
}

function initials(name: string): string {
  const words = name.split(/[\s@]+/).filter((word) => /^[\p{L}\p{N}]/u.test(word));
  return words
    .slice(0, 2)
    .map((word) => [...word][0] ?? '')
    .join('')
    .toUpperCase();
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
