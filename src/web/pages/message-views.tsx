import type { VNode } from 'preact';
import { Headers } from './message-headers.tsx';
import { History } from './message-history.tsx';
import type { MessageContent } from './message-props.ts';
import { Source } from './message-source.tsx';

/** The views of a message that few visits open; nothing for the others. */
export function MessageViews(message: MessageContent): VNode | null {
  const { content } = message;
  switch (content.view) {
    case 'headers':
      return <Headers fields={content.fields} hops={content.hops} />;
    case 'source':
      return <Source message={message} window={content.window} />;
    case 'history':
      return <History lines={content.lines} asOf={content.asOf} message={message} />;
    default:
      return null;
  }
}
