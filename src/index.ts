/** What programs import from the package: an archive to read, typed clients of both surfaces, and what they throw. */
export type { Bytes, Page } from './api/answers.ts';
export type { PageOptions, PageOptions as PlatformPageOptions } from './api/client.ts';
export type { RequestReport } from './api/exchange.ts';
export {
  type FolderRef,
  MailboxClient,
  type MessagePageOptions,
  type MessageRef,
  type WebhookPageOptions,
  type WebhookRef,
} from './api/mailbox-client.ts';
export {
  type DeliveryLogPageOptions,
  PlatformClient,
  type PlatformMailboxPageOptions,
  type PlatformWebhookPageOptions,
} from './api/platform-client.ts';
export {
  Accepted,
  type CallOptions,
  type ClientOptions,
  type RawAnswer,
  type SpoolOptions,
} from './api/surface-client.ts';
export { hasCode, MailkeepError } from './errors/mailkeep-error.ts';
export {
  type OriginAnswer,
  type OriginCode,
  type OriginFacts,
  OriginRefusal,
} from './errors/origin.ts';
export type {
  Archive,
  ArchivedFolder,
  ArchivedMailbox,
  ListOptions,
  Problem,
  SearchOptions,
  VerifyOptions,
  VerifyReport,
} from './library/archive.ts';
export { openArchive } from './library/open-archive.ts';
export type { AttachmentLine, HitPlace, PlaceLine, SearchLine } from './mail/lines.ts';
export type { Address, ListedAttachment, Listing } from './mail/words.ts';
export { type DeliveryHint, readDelivery } from './wire/delivery.ts';
export type {
  AccountRecord,
  FlagsResultRecord,
  FolderRecord,
  MessageTextRecord,
  QuotaRecord,
  WebhookRecord,
  WebhookTestRecord,
  WebhookWithSecretRecord,
} from './wire/mailbox-records.ts';
export type {
  CreateWebhookRequest,
  FeedbackRequest,
  MessageFlagsRequest,
  PatchMessageRequest,
  SearchRequest,
  SendRequest,
  UpdateWebhookRequest,
} from './wire/mailbox-requests.ts';
export type { Operation, Param } from './wire/operation.ts';
export { findOperation, OPERATIONS } from './wire/operations.ts';
export type {
  DeliveryLogRecord,
  PlatformMailboxRecord,
  PlatformMessageRecord,
  PlatformWebhookRecord,
  PlatformWebhookTestRecord,
  PlatformWebhookWithSecretRecord,
} from './wire/platform-records.ts';
