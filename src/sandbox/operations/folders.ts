import { byFolderPath, pageOf, spelledPath } from '../../mailbox-surface/parameters.ts';
import { invalid, Refusal } from '../../mailbox-surface/refusal.ts';
import { dataReply, NO_CONTENT, pageOfAll, type Reply } from '../../mailbox-surface/reply.ts';
import type { FolderRecord } from '../../wire/mailbox-records.ts';
import { folderRequest } from '../../wire/mailbox-requests.ts';
import type { Folder } from '../store/folder.ts';
import { DELIMITER, STANDING_FOLDERS, withSubfolders } from '../store/mailbox.ts';
import { bodyOf, type Call, folderOf, mailboxOf } from './call.ts';

/** All folders, INBOX first, then by path. */
export function listFolders(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const page = pageOf(call.query, 50, 100);
  const folders = [...mailbox.folders.values()].sort(byFolderPath);
  return pageOfAll(folders, page, folderRecordOf);
}

function folderRecordOf(folder: Folder): FolderRecord {
  return {
    path: folder.path,
    name: folder.path.slice(folder.path.lastIndexOf(DELIMITER) + 1),
    delimiter: DELIMITER,
    specialUse: folder.specialUse,
    messageCount: folder.count,
    unreadCount: folder.unread,
  };
}

/** Creates a folder by its full path, and the folders above it that are not there. */
export function createFolder(call: Call): Reply {
  const mailbox = mailboxOf(call);
  const path = newPath(bodyOf(call, folderRequest).name);
  if (mailbox.folders.has(path)) throw exists(path);
  const { store } = call.service;
  const folder = store.atomically(() => store.folderWithParents(mailbox, path));
  return dataReply(folderRecordOf(folder), 201);
}

/** Renames a folder and everything below it to a new full path. */
export function updateFolder(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  const path = newPath(bodyOf(call, folderRequest).name);
  if (path === folder.path) return dataReply(folderRecordOf(folder));
  refuseStanding(folder);
  if (path.startsWith(folder.path + DELIMITER)) {
    throw invalid({ name: ['must not lie below the folder itself'] });
  }
  const { store } = call.service;
  const moved = withSubfolders(mailbox, folder.path);
  for (const { path: old } of moved) {
    const renamed = path + old.slice(folder.path.length);
    if (mailbox.folders.has(renamed)) throw exists(renamed);
  }
  store.atomically(() => {
    const end = path.lastIndexOf(DELIMITER);
    if (end >= 0) store.folderWithParents(mailbox, path.slice(0, end));
    store.renameFolder(mailbox, folder.path, path);
  });
  return dataReply(folderRecordOf(folder));
}

/** Deletes a folder, everything below it and all messages in them, for good. */
export function deleteFolder(call: Call): Reply {
  const { mailbox, folder } = folderOf(call);
  for (const affected of withSubfolders(mailbox, folder.path)) refuseStanding(affected);
  call.service.store.deleteFolder(mailbox, folder.path);
  return NO_CONTENT;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const BAD_NAME = /[\x00-\x1f\x7f-\x9f/*%\\]|\p{Surrogate}/u;

function newPath(name: string): string {
  const path = spelledPath(name);
  if (BAD_NAME.test(path) || path.split(DELIMITER).some((part) => part.trim() === '')) {
    throw invalid({ name: ['must be a path of names joined by dots, without / * % \\'] });
  }
  return path;
}

function refuseStanding(folder: Folder): void {
  if (!STANDING_FOLDERS.has(folder.path)) return;
  throw new Refusal(409, 'ERR_FOLDER_PROTECTED', 'This folder is part of every mailbox', {
    folder: folder.path,
  });
}

function exists(path: string): Refusal {
  return new Refusal(409, 'ERR_FOLDER_EXISTS', 'A folder of this path exists', { folder: path });
}
