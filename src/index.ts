/** Public API of the package: read-only archives, typed clients for both APIs, and their errors. */

export {
  type Archive,
  type ArchivedFolder,
  type ArchivedMailbox,
  type ListOptions,
  openArchive,
  type Problem,
  type SearchOptions,
  type VerifyOptions,
  type VerifyReport,
} from './cli/library.ts';
export { hasCode, MailkeepError } from './core/errors.ts';
export type { Address, ListedAttachment, Listing } from './core/types.ts';
export type { AttachmentLine, HitPlace, PlaceLine, SearchLine } from './mail/identity.ts';
export {
  type DeliveryLogPageOptions,
  type FolderRef,
  MailboxClient,
  type MessagePageOptions,
  type MessageRef,
  PlatformClient,
  type PlatformMailboxPageOptions,
  type PlatformWebhookPageOptions,
  type WebhookPageOptions,
  type WebhookRef,
} from './service/client.ts';
export {
  type OriginAnswer,
  type OriginCode,
  type OriginFacts,
  OriginRefusal,
} from './service/errors.ts';
export type {
  AccountRecord,
  CreateWebhookRequest,
  FeedbackRequest,
  FlagsResultRecord,
  FolderRecord,
  MessageFlagsRequest,
  MessageTextRecord,
  PatchMessageRequest,
  QuotaRecord,
  SearchRequest,
  SendRequest,
  UpdateWebhookRequest,
  WebhookRecord,
  WebhookTestRecord,
  WebhookWithSecretRecord,
} from './service/mailbox-wire.ts';
export type {
  DeliveryLogRecord,
  PlatformMailboxRecord,
  PlatformMessageRecord,
  PlatformWebhookRecord,
  PlatformWebhookTestRecord,
  PlatformWebhookWithSecretRecord,
} from './service/platform-wire.ts';
export {
  type DeliveryHint,
  findOperation,
  OPERATIONS,
  readDelivery,
} from './service/platform-wire.ts';
export type { Bytes, Page } from './service/requests.ts';
export type { PageOptions, PageOptions as PlatformPageOptions } from './service/surface-client.ts';
export {
  Accepted,
  type CallOptions,
  type ClientOptions,
  type RawAnswer,
  type SpoolOptions,
} from './service/surface-client.ts';
export type { RequestReport } from './service/transport.ts';
export type { Operation, Param } from './service/wire.ts';
