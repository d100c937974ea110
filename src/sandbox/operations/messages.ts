import { pageOf, sortOf } from '../../mailbox-surface/parameters.ts';
import { invalid } from '../../mailbox-surface/refusal.ts';
import {
  dataReply,
  NO_CONTENT,
  pageOffset,
  pageReply,
  type Reply,
} from '../../mailbox-surface/reply.ts';
import {
  deleteMessagesRequest,
  messageFlagsRequest,
  moveMessageRequest,
  moveMessagesRequest,
  patchMessageRequest,
} from '../../wire/mailbox-requests.ts';
import { assertThere } from '../seed/file-block.ts';
import {
  bodyOf,
  type Call,
  entryOf,
  folderOf,
  messageMissing,
  targetFolderOf,
  uidOf,
} from './call.ts';

export function listMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const { field, descending } = sortOf(call.query);
  const { store } = call.service;
  const entries = folder.page(field, descending, pageOffset(page), page.perPage, store);
  return pageReply(
    entries.map((entry) => store.records.messageJson(folder, entry)),
    page,
    folder.count,
  );
}

export function getMessage(call: Call): Reply {
  const json = call.service.store.records.messageJson(folderOf(call).folder, entryOf(call));
  return { kind: 'text', status: 200, text: `{"data":${json}}` };
}

export function patchMessage(call: Call): Reply {
  const { folder } = folderOf(call);
  const uid = uidOf(call);
  const { add, remove } = flagChange(bodyOf(call, patchMessageRequest));
  if (call.service.store.changeFlags(folder, uid, add, remove) === null) {
    throw messageMissing(call, uid);
  }
  return getMessage(call);
}

/** 200 when every uid was found, else 207 with what happened to each. */
export function updateMessageFlags(call: Call): Reply {
  const { folder } = folderOf(call);
  const body = bodyOf(call, messageFlagsRequest);
  const { add, remove } = flagChange(body);
  const { store } = call.service;
  const successful: number[] = [];
  const failed: { uid: number; reason: string }[] = [];
  store.atomically(() => {
    for (const uid of new Set(body.uids)) {
      if (store.changeFlags(folder, uid, add, remove) === null) {
        failed.push({ uid, reason: 'The message does not exist' });
      } else successful.push(uid);
    }
  });
  return dataReply({ successful, failed }, failed.length === 0 ? 200 : 207);
}

export function moveMessage(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  const uid = uidOf(call);
  const target = targetFolderOf(mailbox, bodyOf(call, moveMessageRequest).targetFolder);
  if (call.service.store.move(folder, uid, target) === null) throw messageMissing(call, uid);
  return NO_CONTENT;
}

/** Moves the uids that are there, in the order given; as in IMAP the others are passed over. */
export function moveMessages(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  const body = bodyOf(call, moveMessagesRequest);
  const target = targetFolderOf(mailbox, body.targetFolder);
  const { store } = call.service;
  store.atomically(() => {
    for (const uid of new Set(body.uids)) store.move(folder, uid, target);
  });
  return NO_CONTENT;
}

/** Done when the message is not there any more, whoever removed it: the interface declares no 404 here. */
export function deleteMessage(call: Call): Reply {
  const { folder } = folderOf(call);
  call.service.store.remove(folder, uidOf(call));
  return NO_CONTENT;
}

export function deleteMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  const { uids } = bodyOf(call, deleteMessagesRequest);
  const { store } = call.service;
  store.atomically(() => {
    for (const uid of uids) store.remove(folder, uid);
  });
  return NO_CONTENT;
}

export function deleteAllMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  call.service.store.removeAll(folder);
  return NO_CONTENT;
}

/** The source byte for byte. Reading it leaves `\Seen` alone. */
export function getMessageSource(call: Call): Reply {
  const entry = entryOf(call);
  const { store } = call.service;
  const range = store.file(entry.source);
  if (range !== null && range.length > STREAM_FROM_BYTES) {
    // A stream that ends early would leave the client waiting for bytes that never come.
    assertThere(range);
    return { kind: 'file', type: 'message/rfc822', range };
  }
  return { kind: 'bytes', type: 'message/rfc822', bytes: store.read(entry.source) };
}

/** Sources larger than this are streamed from their file; smaller ones are quicker to read at once. */
const STREAM_FROM_BYTES = 1 << 20;

const SYSTEM_FLAGS = ['\\Seen', '\\Answered', '\\Flagged', '\\Deleted', '\\Draft'];
/** An IMAP atom (RFC 3501, section 9): what a keyword may be. */
const KEYWORD = /^[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]+$/;

/** Flags to add and remove, system flags in their usual spelling. @throws Refusal 422 for what is no flag */
function flagChange(body: {
  readonly addFlags?: readonly string[] | undefined;
  readonly removeFlags?: readonly string[] | undefined;
}): { readonly add: readonly string[]; readonly remove: readonly string[] } {
  return {
    add: spelled('addFlags', body.addFlags ?? []),
    remove: spelled('removeFlags', body.removeFlags ?? []),
  };
}

function spelled(field: string, flags: readonly string[]): string[] {
  return flags.map((flag) => {
    if (!flag.startsWith('\\')) {
      if (KEYWORD.test(flag)) return flag;
      throw invalid({ [field]: [`${JSON.stringify(flag)} is not a flag`] });
    }
    const known = SYSTEM_FLAGS.find((system) => system.toLowerCase() === flag.toLowerCase());
    if (known !== undefined) return known;
    throw invalid({ [field]: [`${JSON.stringify(flag)} is not one of ${SYSTEM_FLAGS.join(' ')}`] });
  });
}
