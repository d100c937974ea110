import type { VNode } from 'preact';
import { MessagePane } from './message-pane.tsx';
import type { MessagePaneProps } from './message-props.ts';
import { Moment } from './moment.tsx';
import { Shell, type ShellProps } from './shell.tsx';

type Framed = Omit<ShellProps, 'children' | 'here' | 'title' | 'reading'>;

/** A message over the whole width. */
export function MessagePage({
  message,
  ...frame
}: Framed & { readonly message: MessagePaneProps }): VNode {
  const title = message.conversation.own.line.subject ?? '(no subject)';
  return (
    <Shell {...frame} here="message" title={title} reading>
      <section class="read alone" aria-label="Message">
        <MessagePane {...message} />
      </section>
    </Shell>
  );
}

/** What stands where a message would: none has the id, several have, or it was removed from the archive. */
export type NoMessage =
  | { readonly kind: 'none' }
  | { readonly kind: 'not-then' }
  | {
      readonly kind: 'several';
      readonly links: readonly { readonly id: string; readonly subject: string }[];
    }
  | {
      readonly kind: 'purged';
      readonly id: string;
      readonly reason: string;
      readonly time: string | null;
    };

export function NoMessagePage({ found, ...frame }: Framed & { readonly found: NoMessage }): VNode {
  return (
    <Shell {...frame} here="message" title="No such message">
      <section class="page">
        <About found={found} />
      </section>
    </Shell>
  );
}

function About({ found }: { readonly found: NoMessage }): VNode {
  switch (found.kind) {
    case 'none':
      return <h1>The archive has no message with this id</h1>;
    case 'not-then':
      return (
        <>
          <h1>Not known then</h1>
          <p>The archive did not have this message at the moment that the query names.</p>
        </>
      );
    case 'several':
      return (
        <>
          <h1>Several messages have an id that begins so</h1>
          <ul class="plain-list">
            {found.links.map(({ id, subject }) => (
              <li key={id}>
                <a class="link" href={`/m/${id}`}>
                  <span class="mono">{id.slice(0, 16)}</span> <bdi>{subject}</bdi>
                </a>
              </li>
            ))}
          </ul>
        </>
      );
    case 'purged':
      return (
        <>
          <h1>This message was removed from the archive</h1>
          <p>
            <span class="mono">{found.id}</span>, {found.reason}
            {found.time !== null && (
              <>
                , <Moment ms={Date.parse(found.time)} />
              </>
            )}
            . Nothing else is left of it.
          </p>
        </>
      );
  }
}
