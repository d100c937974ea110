import { FILE_GROUPS, type FileGroup } from '../../catalog/files/group-names.ts';
import { MOST_PICTURE_BYTES, type PictureType, shownPicture } from '../../mime/picture-header.ts';
import type { Page } from '../pages/page.ts';
import { attachmentsTogether } from '../reading/attachments-together.ts';
import { readContent } from '../reading/content-bytes.ts';
import type { Download } from '../reading/downloads.ts';
import { attachmentsName } from '../reading/export-name.ts';
import { FilesLists, fileDetail, positionOf } from '../reading/files-list.ts';
import { FilesMessagesCounts } from '../reading/files-messages.ts';
import { listedFiles } from '../reading/listed-files.ts';
import { within } from '../reading/mail-list.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { Turns } from '../reading/turns.ts';
import { understandQuery } from '../reading/understood-query.ts';
import type { Answered, MailPages } from './mail-pages.ts';
import type { ArchiveParts, Parameter } from './request-context.ts';

/** Attachments that are read at a time, each in a thread of its own: apart from the messages that people open. */
const READINGS = 2;
const readings = new Turns(READINGS);
/** For the message that a picture is read from, in milliseconds. */
const FINDING_MS = 400;

/** Makes the pages of attachments from what the archive holds at the time of a request. */
export class FilesPages {
  readonly #lists = new FilesLists();
  readonly #counts = new FilesMessagesCounts();

  constructor(
    private readonly parts: Pick<ArchiveParts, 'archive' | 'accounts' | 'now'>,
    private readonly pages: Pick<MailPages, 'frame'>,
  ) {}

  async files(reader: ServedReader, parameter: Parameter, signal: AbortSignal): Promise<Answered> {
    const { archive, accounts, now } = this.parts;
    const query = parameter('q') ?? '';
    const understood = understandQuery(query, reader, now(), accounts);
    const group = groupOf(parameter);
    const inlinePictures = parameter('inline') === '1';
    const position = positionOf(reader.catalog, parameter('after') ?? '');
    const chosen = hashOf(parameter('a') ?? '');
    const { request } = understood;
    const how = { spare: archive.spare, signal };
    const asked =
      request === null ? null : { ...request, group: group ?? undefined, inlinePictures };
    const page: Page = {
      kind: 'files',
      frame: this.pages.frame(reader, query, understood),
      list: asked === null ? null : this.#lists.of(reader, asked, position),
      group,
      inlinePictures,
      messages:
        asked === null
          ? null
          : this.#counts.of(
              reader,
              query,
              { group, inlinePictures },
              (text) => understandQuery(text, reader, now(), accounts).request,
            ),
      after: position === undefined ? undefined : parameter('after'),
      chosen,
      detail:
        asked === null || chosen === null
          ? null
          : await readings.take(() => fileDetail(reader, asked, chosen, how), signal),
      pending: reader.catalog.index.pendingCount(),
    };
    return { page, status: understood.problem === null ? 200 : 400 };
  }

  /** Returns what is listed, on all its pages, as one zip; undefined for nothing, or more than one file takes. */
  together(reader: ServedReader, parameter: Parameter, signal: AbortSignal): Download | undefined {
    const { archive, accounts, now } = this.parts;
    const query = parameter('q') ?? '';
    const { request } = understandQuery(query, reader, now(), accounts);
    if (request === null) return undefined;
    const group = groupOf(parameter);
    const inlinePictures = parameter('inline') === '1';
    const files = listedFiles(reader, { ...request, group: group ?? undefined, inlinePictures });
    const how = { spare: archive.spare, signal };
    return attachmentsTogether(reader, files ?? [], attachmentsName(query, now()), how);
  }

  /** Reads a picture whose bytes are what was stored; undefined for what no page shows. */
  async picture(
    reader: ServedReader,
    hash: string,
    parameter: Parameter,
    signal: AbortSignal,
  ): Promise<{ readonly type: PictureType; readonly bytes: Buffer } | undefined> {
    const { archive, accounts, now } = this.parts;
    const { request } = understandQuery(parameter('q') ?? '', reader, now(), accounts);
    const found =
      request === null
        ? undefined
        : reader.catalog.files.content(request, hash, 1, within(FINDING_MS));
    if (found === undefined || found.group !== 'pictures' || found.size > MOST_PICTURE_BYTES)
      return undefined;
    const wanted = { ...found, message: found.message.id };
    const how = { spare: archive.spare, signal };
    const read = await readings.take(() => readContent(reader, wanted, how), signal);
    if (read.state !== 'whole') return undefined;
    const type = shownPicture(read.bytes);
    return type === undefined ? undefined : { type, bytes: read.bytes };
  }
}

function groupOf(parameter: Parameter): FileGroup | null {
  return FILE_GROUPS.find((known) => known === parameter('type')) ?? null;
}

function hashOf(typed: string): string | null {
  return /^[0-9a-f]{64}$/i.test(typed) ? typed.toLowerCase() : null;
}
