import { z } from 'zod';
import { isImported } from '../../mail/import-host.ts';
import { within } from '../reading/mail-list.ts';
import { statusFor } from '../reading/status-for.ts';
import { visible } from './fence.ts';
import { cut } from './message-lines.ts';
import { questionOf } from './question.ts';
import { fenced, type McpTool, ToolRefusal, tool } from './tool.ts';

const MOST_FOLDERS = 500;
const MOST_GROUPS = 100;
/** Messages that one question may count one by one, and how long it may take to find out, in milliseconds. */
const MOST_COUNTED = 200_000;
const COUNTING_MS = 500;

export const listFolders = tool({
  name: 'list_folders',
  title: 'List mailboxes and folders',
  description: 'Lists the folders of each mailbox with their numbers of messages.',
  input: {},
  output: {
    folders: z.array(
      z.object({
        mailbox: z.string(),
        folder: z.string(),
        special_use: z.string().nullable().describe('As in RFC 6154, such as \\Sent.'),
        messages: z.number().int().describe('At the service, as of the last look.'),
        unread: z.number().int(),
        deleted: z.number().int().describe('Deleted there, kept in the archive.'),
      }),
    ),
    complete: z.boolean().describe(`False where there are more than ${MOST_FOLDERS}.`),
  },
  answer(_, { reader, state }) {
    const all = statusFor(reader, state).mailboxes.flatMap(({ address, folders }) =>
      folders.map(({ folder, specialUse, messages, unread, ended }) => ({
        mailbox: visible(address),
        folder: visible(folder),
        special_use: specialUse === null ? null : visible(specialUse),
        messages,
        unread,
        deleted: ended,
      })),
    );
    return { folders: all.slice(0, MOST_FOLDERS), complete: all.length <= MOST_FOLDERS };
  },
});

export const aggregate = tool({
  name: 'aggregate',
  title: 'Count messages',
  description:
    'Counts what a query finds by sender, recipient, domain, year, month, mailbox, folder or type of attachment: the ' +
    'largest groups first, years and months in their order. A message in two folders counts in each.',
  input: {
    query: z.string().max(4_000).default(''),
    by: z.enum(['from', 'to', 'domain', 'year', 'month', 'mailbox', 'folder', 'type']),
    limit: z.number().int().min(1).max(MOST_GROUPS).default(20),
    everywhere: z.boolean().default(false).describe('Also Junk and Trash.'),
  },
  output: {
    groups: z.array(
      z.object({
        key: fenced(),
        messages: z.number().int(),
        bytes: z.number().int().nullable(),
      }),
    ),
  },
  answer({ query, by, limit, everywhere }, asking) {
    const { reader, fence } = asking;
    const request = questionOf(query, asking, { everywhere });
    const found = reader.catalog.countHitsWhile(request, within(COUNTING_MS));
    if (!found.complete || found.count > MOST_COUNTED)
      throw new ToolRefusal(
        `The query finds more than ${MOST_COUNTED} messages, which are not counted one by one. Add a time, such as after:2026.`,
      );
    return {
      groups: reader.catalog.stats.rows(by, request, limit).map(({ key, messages, bytes }) => ({
        key: fence.around(cut(key)),
        messages,
        bytes,
      })),
    };
  },
});

export const status = tool({
  name: 'status',
  title: 'How fresh and complete the archive is',
  description:
    'Tells when each mailbox was last compared with the service and whether everything added up. Say how old the ' +
    'archive is when an answer depends on it.',
  input: {},
  output: {
    now: z.string().describe('ISO 8601, UTC.'),
    messages: z.number().int(),
    not_searchable_yet: z.number().int(),
    mailboxes: z.array(
      z.object({
        mailbox: z.string(),
        imported: z.boolean().describe('From files: never compared with a service.'),
        messages: z.number().int(),
        kept_after_deletion: z.number().int(),
        compared_at: z
          .string()
          .nullable()
          .describe(
            'When the folder was compared whose comparison is the oldest; null: one never was.',
          ),
        complete: z.boolean(),
        in_quarantine: z.number().int().describe('Messages that could not be fetched.'),
      }),
    ),
  },
  answer(_, { reader, state, now }) {
    const { messages, pending, mailboxes } = statusFor(reader, state);
    return {
      now: new Date(now).toISOString(),
      messages,
      not_searchable_yet: pending,
      mailboxes: mailboxes.map((mailbox) => ({
        mailbox: visible(mailbox.address),
        imported: isImported(mailbox),
        messages: mailbox.messages,
        kept_after_deletion: mailbox.ended,
        compared_at: mailbox.provenAt,
        complete: mailbox.complete,
        in_quarantine: mailbox.quarantined,
      })),
    };
  },
});

/** The tools that ask about the archive as a whole. */
export const ARCHIVE_TOOLS: readonly McpTool[] = [listFolders, aggregate, status];
