import { type Random, randomAt } from '../random.ts';
import { asHtml, asText, filled, paragraphs, quoted } from './body.ts';
import { type Document, documentAt, signaturePicture } from './documents.ts';
import { base64Lines, encodeHeaderValue, encodeText, quotedPrintable } from './encode-text.ts';
import { type MailSeed, type Plan, planAt } from './plan.ts';

const SALT = 20;
/** Documents there are to attach; few enough that they meet again. */
const DOCUMENTS = 400;

/** The raw source of a generated message: always the same for the same seed and index. */
export function writeMessage(mail: MailSeed, index: number): Buffer {
  const plan = planAt(mail, index);
  const random = randomAt(mail.seed, index, SALT);
  const charset = random.pick(plan.person.language.charsets);
  const head = headerLines(mail, plan, charset, random);
  const body = bodyPart(mail, plan, charset, random);
  return Buffer.concat([
    Buffer.from(`${[...head, ...body.headers].join('\r\n')}\r\n\r\n`, 'latin1'),
    body.bytes,
  ]);
}

export function messageIdAt(mail: MailSeed, index: number): string {
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

/** Message-IDs of the thread up to the parent, oldest first. */
function threadOf(mail: MailSeed, plan: Plan): string[] {
  const ids: string[] = [];
  for (let at = plan.parent; at >= 0; at = planAt(mail, at).parent) {
    ids.unshift(messageIdAt(mail, at));
  }
  return ids;
}

function subjectOf(mail: MailSeed, plan: Plan): string {
  const random = randomAt(mail.seed, plan.root, SALT + 2);
  const { language } = plan.person;
  const subject = filled(random.pick(language.subjects), language, random);
  return plan.depth > 0 ? `Re: ${subject}` : subject;
}

/** `Mon, 05 Jan 2026 10:00:00 +0000` */
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
  const whole = form > 92 ? rich : multipart('alternative', [plain, rich], boundary(random));
  return withDocuments(mail, plan, whole, random);
}

/** What a message says, whatever form it is given. */
function blocksOf(mail: MailSeed, plan: Plan): string[] {
  const { language } = plan.person;
  return paragraphs(language, randomAt(mail.seed, plan.index, SALT + 3), authorOf(mail, plan));
}

function quotation(mail: MailSeed, plan: Plan): string {
  const parent = planAt(mail, plan.parent);
  const heading = `${authorOf(mail, parent)} ${parent.person.language.wrote}:`;
  return `\r\n${heading}\r\n${quoted(asText(blocksOf(mail, parent)))}\r\n`;
}

function authorOf(mail: MailSeed, plan: Plan): string {
  return plan.fromOwner ? mail.owner : plan.person.name;
}

function withDocuments(mail: MailSeed, plan: Plan, body: MimePart, random: Random): MimePart {
  if (plan.kind !== 'personal' || !random.chance(0.18)) return body;
  const parts = [body];
  const count = 1 + random.below(2);
  for (let number = 0; number < count; number += 1) {
    // Squaring the draw makes some documents travel a lot and most hardly at all.
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
