/** What reading a message takes, next to the list or alone: it is loaded with the first message that is opened. */
export { MessagePage, NoMessagePage } from '../pages/message-page.tsx';
export { MessagePane } from '../pages/message-pane.tsx';
export { MessageViews } from '../pages/message-views.tsx';
export { LiveConversation } from './live-conversation.tsx';
