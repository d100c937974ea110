import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';
import iconv from 'iconv-lite';
import { LANGUAGES, type Language } from './languages.ts';

/** A seeded random generator (sfc32 from PractRand, 128 bits of state). Yields the same numbers on every machine. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter: number;

  constructor(a: number, b: number, c: number) {
    this.#a = a | 0;
    this.#b = b | 0;
    this.#c = c | 0;
    this.#counter = 1;
    for (let round = 0; round < 12; round += 1) this.#next();
  }

  /** 0 ≤ x < 1. */
  unit(): number {
    return this.#next() / 4_294_967_296;
  }

  /** Returns an integer n, where 0 ≤ n < bound. */
  below(bound: number): number {
    return Math.floor(this.unit() * bound);
  }

  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.below(list.length)] ?? list[0];
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  bytes(length: number): Buffer {
    const out = Buffer.allocUnsafe(length);
    let at = 0;
    for (; at + 4 <= length; at += 4) out.writeUInt32LE(this.#next(), at);
    for (; at < length; at += 1) out[at] = this.#next() & 0xff;
    return out;
  }

  #next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }
}

/** Returns a generator that is independent of generators for other purposes. */
export function randomFrom(seed: number, purpose: string): Random {
  const hash = createHash('sha256').update(`${seed}/${purpose}`).digest();
  return new Random(hash.readInt32LE(0), hash.readInt32LE(4), hash.readInt32LE(8));
}

/** Returns a generator for the item at an index, without creating generators for earlier items. */
function randomAt(seed: number, index: number, salt: number): Random {
  return new Random(
    Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + salt,
    Math.imul(index + 1, 0xc2b2ae35) ^ seed,
    (index / 4_294_967_296) ^ Math.imul(salt + 1, 0x27d4eb2f),
  );
}

function fillTemplate(template: string, language: Language, random: Random): string {
  return template.replace(/\{(thing|day|place|number)\}/g, (_, slot: string) => {
    switch (slot) {
      case 'thing':
        return random.pick(language.things);
      case 'day':
        return random.pick(language.days);
      case 'place':
        return random.pick(language.places);
      default:
        return String(2 + random.below(9_997));
    }
  });
}

function paragraphs(language: Language, random: Random, signer: string): string[] {
  const out = [random.pick(language.greetings)];
  const count = 1 + random.below(4);
  for (let paragraph = 0; paragraph < count; paragraph += 1) {
    const sentences = Array.from({ length: 1 + random.below(6) }, () =>
      fillTemplate(random.pick(language.sentences), language, random),
    );
    out.push(sentences.join(' '));
  }
  out.push(`${random.pick(language.closings)}\r\n${signer}`);
  return out;
}

function asText(blocks: readonly string[]): string {
  return `${blocks.map(wrap).join('\r\n\r\n')}\r\n`;
}

function wrap(block: string): string {
  return block
    .split('\r\n')
    .map((line) => {
      let column = 0;
      return line
        .split(' ')
        .map((word, index) => {
          const broken = index > 0 && column + word.length > 72;
          column = (broken ? 0 : column + 1) + word.length;
          return (index === 0 ? '' : broken ? '\r\n' : ' ') + word;
        })
        .join('');
    })
    .join('\r\n');
}

function quote(text: string): string {
  return text
    .trimEnd()
    .split('\r\n')
    .map((line) => (line === '' ? '>' : `> ${line}`))
    .join('\r\n');
}

interface HtmlParts {
  readonly charset: string;
  readonly blocks: readonly string[];
  readonly pictureId: string | null;
  readonly links: readonly string[];
}

/** Returns the text as HTML, with the redundant markup that mail programs typically add. */
function asHtml({ charset, blocks, pictureId, links }: HtmlParts): string {
  const body = blocks.map(
    (block) =>
      `<p style="margin:0 0 12px 0;line-height:1.5;mso-line-height-rule:exactly">${escapeHtml(block).replaceAll('\r\n', '<br>')}</p>`,
  );
  const anchors = links.map(
    (link, index) =>
      `<tr><td style="padding:8px 16px;border-bottom:1px solid #dddddd"><a href="${link}" style="color:#1a5fb4;text-decoration:none">${index + 1}</a></td></tr>`,
  );
  return [
    '<!DOCTYPE html>',
    `<html><head><meta http-equiv="Content-Type" content="text/html; charset=${charset}">`,
    '<style type="text/css">',
    'body{font-family:Arial,Helvetica,sans-serif;font-size:14px;color:#222222;margin:0;padding:16px}',
    'table{border-collapse:collapse;width:100%;max-width:640px}',
    '@media only screen and (max-width:480px){body{padding:8px}}',
    '</style></head><body>',
    ...body,
    ...(anchors.length > 0 ? ['<table role="presentation">', ...anchors, '</table>'] : []),
    ...(pictureId === null ? [] : [`<img src="cid:${pictureId}" alt="" width="120">`]),
    '</body></html>',
    '',
  ].join('\r\n');
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** An attachment. The same number always yields the same bytes, so that a forwarded document is identical. */
interface Document {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

const DOCUMENT_SALT = 7;

export function documentAt(seed: number, number: number): Document {
  const random = randomAt(seed, number, DOCUMENT_SALT);
  const kind = random.below(100);
  if (kind < 40) return pdf(random, number);
  if (kind < 65) return table(random, number);
  if (kind < 85) return picture(`photo-${number}.png`, random, 40 + random.below(80));
  if (kind < 97) {
    return {
      filename: `archive-${number}.zip`,
      contentType: 'application/zip',
      bytes: random.bytes(8_000 + random.below(90_000)),
    };
  }
  return {
    filename: `recording-${number}.bin`,
    contentType: 'application/octet-stream',
    bytes: random.bytes(400_000 + random.below(2_200_000)),
  };
}

function signaturePicture(seed: number, company: number): Document {
  return picture('logo.png', randomAt(seed, company, DOCUMENT_SALT + 1), 24 + (company % 5) * 8);
}

function table(random: Random, number: number): Document {
  const rows = ['date;article;quantity;price'];
  const count = 10 + random.below(120);
  for (let row = 0; row < count; row += 1) {
    const day = 1 + random.below(28);
    rows.push(
      `2025-0${1 + random.below(9)}-${String(day).padStart(2, '0')};A-${random.below(10_000)};${1 + random.below(50)};${random.below(100_000) / 100}`,
    );
  }
  return {
    filename: `figures-${number}.csv`,
    contentType: 'text/csv',
    bytes: Buffer.from(`${rows.join('\r\n')}\r\n`),
  };
}

function pdf(random: Random, number: number): Document {
  const lines = Array.from(
    { length: 3 + random.below(30) },
    (_, line) =>
      `0 -14 Td (Document ${number}, line ${line + 1}: item ${random.below(1_000_000)}) Tj`,
  );
  const content = `BT /F1 11 Tf 60 780 Td (Document ${number}) Tj\n${lines.join('\n')}\nET`;
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ];
  let text = '%PDF-1.4\n';
  const offsets: string[] = [];
  objects.forEach((object, index) => {
    offsets.push(`${String(text.length).padStart(10, '0')} 00000 n \n`);
    text += `${index + 1} 0 obj\n${object}\nendobj\n`;
  });
  const xref = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${offsets.join('')}`;
  text += `trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF\n`;
  return {
    filename: `document-${number}.pdf`,
    contentType: 'application/pdf',
    bytes: Buffer.from(text, 'latin1'),
  };
}

/** Returns a greyscale PNG. Its pixels are uncompressed, so that its bytes do not depend on the zlib version. */
function picture(filename: string, random: Random, side: number): Document {
  const rows: Buffer[] = [];
  for (let row = 0; row < side; row += 1) rows.push(Buffer.from([0]), random.bytes(side));
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.writeUInt8(8, 8);
  return {
    filename,
    contentType: 'image/png',
    bytes: Buffer.concat([
      Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]),
      chunk('IHDR', header),
      chunk('IDAT', deflateSync(Buffer.concat(rows), { level: 0 })),
      chunk('IEND', Buffer.alloc(0)),
    ]),
  };
}

function chunk(type: string, data: Buffer): Buffer {
  const out = Buffer.alloc(12 + data.length);
  out.writeUInt32BE(data.length, 0);
  out.write(type, 4, 'latin1');
  data.copy(out, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
  return out;
}

/** Encodes text in a charset. Unsupported characters become `?`. */
function encodeText(text: string, charset: string): Buffer {
  switch (charset) {
    case 'us-ascii':
      // biome-ignore lint/suspicious/noControlCharactersInRegex: everything above ASCII is replaced
      return Buffer.from(text.replace(/[^\x00-\x7f]/g, '?'), 'latin1');
    case 'iso-2022-jp':
      return encodeIso2022Jp(text);
    default:
      return iconv.encode(text, charset);
  }
}

const TO_JIS = Buffer.from('\x1b$B', 'latin1');
const TO_ASCII = Buffer.from('\x1b(B', 'latin1');

/** Converts EUC-JP to ISO-2022-JP (RFC 1468), which uses the same two-byte codes without high bits, between escapes. */
function encodeIso2022Jp(text: string): Buffer {
  const euc = iconv.encode(text, 'euc-jp');
  const pieces: Buffer[] = [];
  let at = 0;
  while (at < euc.length) {
    const wide = (euc[at] ?? 0) >= 0x80;
    let stop = at;
    while (stop < euc.length && (euc[stop] ?? 0) >= 0x80 === wide) stop += 1;
    const run = euc.subarray(at, stop);
    if (wide) pieces.push(TO_JIS, Buffer.from(run.map((byte) => byte & 0x7f)), TO_ASCII);
    else pieces.push(run);
    at = stop;
  }
  return Buffer.concat(pieces);
}

/** Returns encoded words (RFC 2047) unless the text is ASCII. Words are short enough to avoid splitting characters. */
function encodeHeaderValue(text: string, charset: string): string {
  if (/^[\x20-\x7e]*$/.test(text)) return text;
  const label = charset === 'us-ascii' ? 'utf-8' : charset;
  const words: string[] = [];
  let run = '';
  for (const character of text) {
    if (encodeText(run + character, label).length > 36) {
      words.push(run);
      run = '';
    }
    run += character;
  }
  words.push(run);
  return words
    .map((word) => `=?${label}?B?${encodeText(word, label).toString('base64')}?=`)
    .join('\r\n ');
}

/** Encodes bytes in base64, in lines of 76 characters that end with CRLF. */
function base64Lines(bytes: Buffer): string {
  return bytes.toString('base64').replace(/.{1,76}/g, '$&\r\n');
}

const HEX = '0123456789ABCDEF';

/** @param bytes text with CRLF line endings (RFC 2045, 6.7) */
function quotedPrintable(bytes: Buffer): string {
  let out = '';
  let column = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === 13 && bytes[at + 1] === 10) {
      out += '\r\n';
      column = 0;
      at += 1;
      continue;
    }
    const endsLine = bytes[at + 1] === 13 || at + 1 === bytes.length;
    const plain = (byte > 32 && byte < 127 && byte !== 61) || (byte === 32 && !endsLine);
    const width = plain ? 1 : 3;
    if (column + width > 75) {
      out += '=\r\n';
      column = 0;
    }
    out += plain ? String.fromCharCode(byte) : `=${HEX[byte >> 4]}${HEX[byte & 15]}`;
    column += width;
  }
  return out;
}

export interface MailSeed {
  readonly seed: number;
  /** Seed for the attachments. Mailboxes with the same seed share attachments. */
  readonly documentSeed: number;
  readonly count: number;
  readonly owner: string;
  /** When the newest message was received, in milliseconds since the epoch. */
  readonly newest: number;
}

interface Person {
  readonly name: string;
  readonly address: string;
  /** Colleagues share a domain and a signature image. */
  readonly company: number;
  readonly language: Language;
}

type Kind = 'personal' | 'newsletter' | 'list' | 'notice';

const DAY_MS = 86_400_000;
const MAX_DEPTH = 6;
const PEOPLE = 240;
const COMPANIES = 40;

/** Draws with different salts are independent. */
const THREAD_SALT = 1;
const OPENING_SALT = 2;
const PERSON_SALT = 3;
const DATE_SALT = 4;
const PLAN_SALT = 5;

/** Returns the time span covered by the mail: 400 days for demo mail, ten years for a million messages. */
function spanMs(count: number): number {
  const decades = Math.min(1, Math.max(0, Math.log10(count / 1000)) / 3);
  return (400 + 3250 * decades) * DAY_MS;
}

/** Returns when a message was received. Times increase with the index, at uneven intervals. */
export function receivedAt(mail: MailSeed, index: number): number {
  const step = spanMs(mail.count) / Math.max(1, mail.count);
  const jitter = randomAt(mail.seed, index, DATE_SALT).unit() * step * 0.9;
  const time =
    mail.newest - (mail.count - 1 - index) * step - (index === mail.count - 1 ? 0 : jitter);
  return Math.floor(time / 1000) * 1000;
}

/** Returns the index of the message being answered, one of the previous forty, or -1. Ignores the thread depth. */
function parentOf(seed: number, index: number): number {
  const random = randomAt(seed, index, THREAD_SALT);
  if (index === 0 || !random.chance(0.45)) return -1;
  return index - 1 - random.below(Math.min(index, 40));
}

type Plan = Readonly<ReturnType<typeof planMessage>>;

export function planMessage(mail: MailSeed, index: number) {
  let parent = parentOf(mail.seed, index);
  const ancestors: number[] = [];
  for (let at = parent; at >= 0 && ancestors.length <= MAX_DEPTH; at = parentOf(mail.seed, at)) {
    ancestors.push(at);
  }
  let depth = ancestors.length;
  let root = ancestors.at(-1) ?? index;
  if (depth > MAX_DEPTH) {
    // This message starts a new thread, with its own replies.
    parent = -1;
    depth = 0;
    root = index;
  }
  const opening = randomAt(mail.seed, root, OPENING_SALT);
  const kind = pickKind(opening.below(100));
  const person = personAt(mail.seed, opening.below(PEOPLE));
  const random = randomAt(mail.seed, index, PLAN_SALT);
  const answerable = kind === 'personal' || kind === 'list';
  const fromOwner = answerable && random.chance(depth % 2 === 1 ? 0.6 : 0.12);
  const received = receivedAt(mail, index);
  const folder = pickFolder(kind, fromOwner, received, random.below(100));
  return {
    index,
    parent: answerable ? parent : -1,
    root: answerable ? root : index,
    depth: answerable ? depth : 0,
    kind,
    fromOwner,
    person,
    folder,
    flags: pickFlags(mail, index, folder, fromOwner, random.below(100)),
    received,
  };
}

function pickKind(draw: number): Kind {
  if (draw < 66) return 'personal';
  if (draw < 80) return 'list';
  return draw < 90 ? 'newsletter' : 'notice';
}

function pickFolder(kind: Kind, fromOwner: boolean, received: number, draw: number): string {
  if (fromOwner) return draw < 3 ? 'INBOX.Drafts' : 'INBOX.Sent';
  if (kind === 'list') return 'INBOX.Lists.gardening';
  if (kind === 'newsletter' && draw < 60) return 'INBOX.Newsletters';
  if (draw < 3) return 'INBOX.Trash';
  if (draw < 6) return 'INBOX.Junk';
  if (draw < 20) return `INBOX.Archive.${new Date(received).getUTCFullYear()}`;
  return draw < 26 ? 'INBOX.Projects.Größe & Maß' : 'INBOX';
}

function pickFlags(
  mail: MailSeed,
  index: number,
  folder: string,
  fromOwner: boolean,
  draw: number,
): string[] {
  if (folder === 'INBOX.Drafts') return ['\\Draft', '\\Seen'];
  if (fromOwner) return ['\\Seen'];
  // The newest twentieth is mostly unread, the rest mostly read.
  const recent = index >= mail.count * 0.95;
  const flags = draw < (recent ? 35 : 94) ? ['\\Seen'] : [];
  if (draw % 7 === 0 && !recent) flags.push('\\Answered');
  if (draw % 23 === 0) flags.push('\\Flagged');
  if (draw % 31 === 0) flags.push('$label1');
  if (draw % 37 === 0 && !recent) flags.push('$forwarded');
  return flags;
}

function personAt(seed: number, number: number): Person {
  const random = randomAt(seed, number, PERSON_SALT);
  const language = random.pick(LANGUAGES);
  const company = random.below(COMPANIES);
  const name = `${random.pick(language.first)} ${random.pick(language.last)}`;
  const address = `person${number}@company${company}.example`;
  return { name, address, company, language };
}

const SALT = 20;
/** Few enough that attachments are repeated. */
const DOCUMENTS = 400;

/** Returns a message's source. Depends only on the seed and the index. */
export function writeMessage(mail: MailSeed, index: number): Buffer {
  const plan = planMessage(mail, index);
  const random = randomAt(mail.seed, index, SALT);
  const charset = random.pick(plan.person.language.charsets);
  const head = headerLines(mail, plan, charset, random);
  const body = bodyPart(mail, plan, charset, random);
  return Buffer.concat([
    Buffer.from(`${[...head, ...body.headers].join('\r\n')}\r\n\r\n`, 'latin1'),
    body.bytes,
  ]);
}

function messageIdAt(mail: MailSeed, index: number): string {
  const tag = randomAt(mail.seed, index, SALT + 1)
    .bytes(9)
    .toString('base64url');
  return `<${tag}.${index}@mail.example>`;
}

function headerLines(mail: MailSeed, plan: Plan, charset: string, random: Random): string[] {
  const { person } = plan;
  const other = `${encodeHeaderValue(person.name, charset)} <${person.address}>`;
  const owner = `<${mail.owner}>`;
  const thread = threadOf(mail, plan);
  const lines = plan.fromOwner ? [] : receivedLines(mail, plan, random);
  lines.push(
    `Date: ${rfcDate(plan.received)}`,
    `From: ${plan.fromOwner ? owner : other}`,
    `To: ${toOf(plan, owner, other)}`,
    `Message-ID: ${messageIdAt(mail, plan.index)}`,
    `Subject: ${encodeHeaderValue(subjectOf(mail, plan), charset)}`,
  );
  if (random.chance(0.15))
    lines.push(`Cc: person${random.below(240)}@company${random.below(40)}.example`);
  if (thread.length > 0) {
    lines.push(`In-Reply-To: ${thread.at(-1) ?? ''}`, `References: ${thread.join('\r\n ')}`);
  }
  if (plan.kind === 'list') {
    lines.push('List-Id: Gardening <gardening.lists.example>', 'Precedence: list');
  }
  if (plan.kind === 'newsletter') {
    lines.push(
      `List-Unsubscribe: <https://news.example/u/${plan.index}>`,
      'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
    );
  }
  lines.push('MIME-Version: 1.0');
  return lines;
}

function toOf(plan: Plan, owner: string, other: string): string {
  if (plan.kind === 'list') return 'Gardening <gardening@lists.example>';
  return plan.fromOwner ? other : owner;
}

function receivedLines(mail: MailSeed, plan: Plan, random: Random): string[] {
  const at = (secondsAgo: number) => rfcDate(plan.received - secondsAgo * 1000);
  const host = `company${plan.person.company}.example`;
  const id = () => random.bytes(6).toString('hex');
  return [
    `Return-Path: <${plan.person.address}>`,
    `Delivered-To: ${mail.owner}`,
    `Received: from mx.example (mx.example [192.0.2.${1 + random.below(250)}])\r\n\tby mail.example (Postfix) with ESMTPS id ${id()}\r\n\tfor <${mail.owner}>; ${at(0)}`,
    `Received: from mail.${host} (mail.${host} [198.51.100.${1 + random.below(250)}])\r\n\tby mx.example with ESMTPS id ${id()};\r\n\t${at(3)}`,
    `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=${host}; s=k1;\r\n\th=from:to:subject:date:message-id; bh=${random.bytes(32).toString('base64')};\r\n\tb=${random.bytes(128).toString('base64').replace(/.{70}/g, '$&\r\n\t ')}`,
  ];
}

function threadOf(mail: MailSeed, plan: Plan): string[] {
  const ids: string[] = [];
  for (let index = plan.parent; index >= 0; index = planMessage(mail, index).parent) {
    ids.unshift(messageIdAt(mail, index));
  }
  return ids;
}

function subjectOf(mail: MailSeed, plan: Plan): string {
  const random = randomAt(mail.seed, plan.root, SALT + 2);
  const { language } = plan.person;
  const subject = fillTemplate(random.pick(language.subjects), language, random);
  return plan.depth > 0 ? `Re: ${subject}` : subject;
}

function rfcDate(time: number): string {
  return new Date(time).toUTCString().replace('GMT', '+0000');
}

interface MimePart {
  readonly headers: readonly string[];
  readonly bytes: Buffer;
}

function bodyPart(mail: MailSeed, plan: Plan, charset: string, random: Random): MimePart {
  const blocks = blocksOf(mail, plan);
  let text = asText(blocks);
  if (plan.parent >= 0 && random.chance(0.7)) text += quotation(mail, plan);
  const form = random.below(100);
  const plain = textPart(text, 'plain', charset, random);
  if (plan.kind === 'notice' || (plan.kind !== 'newsletter' && form < 35)) {
    return withDocuments(mail, plan, plain, random);
  }
  const signature =
    plan.kind === 'personal' && !plan.fromOwner && form < 75
      ? signaturePicture(mail.documentSeed, plan.person.company)
      : null;
  const pictureId = signature === null ? null : `logo${plan.person.company}@company.example`;
  const links =
    plan.kind === 'newsletter'
      ? Array.from(
          { length: 6 + random.below(20) },
          () => `https://news.example/${random.bytes(12).toString('hex')}`,
        )
      : [];
  const html = textPart(asHtml({ charset, blocks, pictureId, links }), 'html', charset, random);
  const rich =
    signature === null || pictureId === null
      ? html
      : multipart('related', [html, attachmentPart(signature, pictureId)], boundary(random));
  const body = form > 92 ? rich : multipart('alternative', [plain, rich], boundary(random));
  return withDocuments(mail, plan, body, random);
}

function blocksOf(mail: MailSeed, plan: Plan): string[] {
  const { language } = plan.person;
  return paragraphs(language, randomAt(mail.seed, plan.index, SALT + 3), authorOf(mail, plan));
}

function quotation(mail: MailSeed, plan: Plan): string {
  const parent = planMessage(mail, plan.parent);
  const heading = `${authorOf(mail, parent)} ${parent.person.language.wrote}:`;
  return `\r\n${heading}\r\n${quote(asText(blocksOf(mail, parent)))}\r\n`;
}

function authorOf(mail: MailSeed, plan: Plan): string {
  return plan.fromOwner ? mail.owner : plan.person.name;
}

function withDocuments(mail: MailSeed, plan: Plan, body: MimePart, random: Random): MimePart {
  if (plan.kind !== 'personal' || !random.chance(0.18)) return body;
  const parts = [body];
  const count = 1 + random.below(2);
  for (let number = 0; number < count; number += 1) {
    // Squaring makes a few documents popular and most rare.
    const popular = Math.floor(random.unit() ** 2 * DOCUMENTS);
    parts.push(attachmentPart(documentAt(mail.documentSeed, popular), null));
  }
  return multipart('mixed', parts, boundary(random));
}

function textPart(text: string, subtype: string, charset: string, random: Random): MimePart {
  const bytes = encodeText(text, charset);
  const type = `Content-Type: text/${subtype}; charset=${charset}`;
  if (charset === 'us-ascii' || charset === 'iso-2022-jp') {
    return { headers: [type, 'Content-Transfer-Encoding: 7bit'], bytes };
  }
  const draw = random.below(10);
  if (draw < 2) return { headers: [type, 'Content-Transfer-Encoding: 8bit'], bytes };
  if (draw < 4 || charset === 'gb18030' || charset === 'koi8-r') {
    return {
      headers: [type, 'Content-Transfer-Encoding: base64'],
      bytes: Buffer.from(base64Lines(bytes), 'latin1'),
    };
  }
  return {
    headers: [type, 'Content-Transfer-Encoding: quoted-printable'],
    bytes: Buffer.from(quotedPrintable(bytes), 'latin1'),
  };
}

function attachmentPart(document: Document, contentId: string | null): MimePart {
  const { filename, contentType, bytes } = document;
  return {
    headers: [
      `Content-Type: ${contentType}; name="${filename}"`,
      'Content-Transfer-Encoding: base64',
      `Content-Disposition: ${contentId === null ? 'attachment' : 'inline'}; filename="${filename}"`,
      ...(contentId === null ? [] : [`Content-ID: <${contentId}>`]),
    ],
    bytes: Buffer.from(base64Lines(bytes), 'latin1'),
  };
}

function multipart(subtype: string, parts: readonly MimePart[], border: string): MimePart {
  const pieces: Buffer[] = [];
  for (const part of parts) {
    pieces.push(
      Buffer.from(`--${border}\r\n${part.headers.join('\r\n')}\r\n\r\n`, 'latin1'),
      part.bytes,
      Buffer.from('\r\n', 'latin1'),
    );
  }
  pieces.push(Buffer.from(`--${border}--\r\n`, 'latin1'));
  return {
    headers: [`Content-Type: multipart/${subtype}; boundary="${border}"`],
    bytes: Buffer.concat(pieces),
  };
}

function boundary(random: Random): string {
  return `=_${random.bytes(15).toString('base64url')}`;
}
