import type { VNode } from 'preact';
import { MessagePane } from './message-pane.tsx';
import type { NoMessage } from './message-props.ts';
import { Rail } from './message-rail.tsx';
import { Moment } from './moment.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';

/** A message over the whole width. */
export function MessagePage({ page }: { readonly page: PageOf<'message'> }): VNode {
  return (
    <Shell frame={page.frame} here="message">
      <div class="with-rail">
        <section class="read alone" id="message" tabindex={-1} aria-label="Message">
          <MessagePane {...page.message} />
        </section>
        <Rail message={page.message} />
      </div>
    </Shell>
  );
}

export function NoMessagePage({ page }: { readonly page: PageOf<'no-message'> }): VNode {
  return (
    <Shell frame={page.frame} here="message">
      <section class="page" id="message" tabindex={-1}>
        <About found={page.found} />
      </section>
    </Shell>
  );
}

/** What removes messages, by the reason that the archive keeps. */
const COMMANDS: Readonly<Record<string, string>> = {
  forgotten: 'mailkeep forget',
  pruned: 'mailkeep prune',
};

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
            <span class="mono id">{found.id}</span>
          </p>
          <p>
            Removed {found.time !== null && <Moment ms={Date.parse(found.time)} />} by{' '}
            <code>{COMMANDS[found.reason] ?? found.reason}</code>. Nothing else is left of it.
          </p>
        </>
      );
  }
}
