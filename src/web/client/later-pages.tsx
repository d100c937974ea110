import type { VNode } from 'preact';
import type { ConversationProps } from '../pages/conversation.tsx';
import type { MessageContent } from '../pages/message-props.ts';
import type { LaterPage, Page } from '../pages/page.ts';
import { Shell } from '../pages/shell.tsx';
import { Kept, loadExtras } from './later-part.tsx';

/** The code outside the first script, once it is loaded. */
let pane: typeof import('./live-pane.tsx') | undefined;

/**
 * Loads the code of a page where it is not part of the first script.
 *
 * @throws where the server is another version by now, whose parts have other names, or cannot be reached
 */
export async function loadLater(page: Page): Promise<void> {
  const { kind } = page;
  if (kind !== 'still' && (kind !== 'mail' || page.message !== null)) await loadPane();
  // Its band takes the place of the server's, without a frame in between.
  if (page.frame.past !== null) await loadExtras();
}

/** Loads the code that shows a message or the page of files. Throws as `loadLater` does. */
export async function loadPane(): Promise<void> {
  pane ??= (await Promise.all([import('./live-pane.tsx'), addLaterStyles()]))[0];
}

/** Adds the styles that the document names and does not have yet. */
async function addLaterStyles(): Promise<void> {
  const named = document.querySelector<HTMLMetaElement>('meta[name=later-styles]');
  if (named === null) return;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = named.content;
  await new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = reject;
    document.head.append(link);
  });
  named.remove();
}

/** A message whose code was loaded before it is shown. */
export function LiveMessage(message: MessageContent): VNode | null {
  return pane === undefined ? null : <pane.MessagePane {...message} />;
}

/** The same for its conversation. */
export function LaterConversation(props: ConversationProps): VNode | null {
  return pane === undefined ? null : <pane.LiveConversation {...props} />;
}

/** The same for its other views. */
export function LiveViews(message: MessageContent): VNode | null {
  return pane === undefined ? null : <pane.MessageViews {...message} />;
}

/** A page whose code was loaded before it is shown, or whose content the server has made. */
export function LiveLater({ page }: { readonly page: LaterPage }): VNode | null {
  switch (page.kind) {
    case 'still':
      return (
        <Shell frame={page.frame} here={page.of === 'export' ? 'mail' : page.of} isList>
          <Kept />
        </Shell>
      );
    case 'message':
      return pane === undefined ? null : <pane.MessagePage page={page} />;
    case 'no-message':
      return pane === undefined ? null : <pane.NoMessagePage page={page} />;
    case 'files':
      return pane === undefined ? null : <pane.FilesPage page={page} />;
    default:
      // The script is never given them: see `StillKind`.
      return null;
  }
}
