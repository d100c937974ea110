import type { Random } from '../random.ts';
import type { Language } from './languages.ts';

/** A template with its slots filled. */
export function filled(template: string, language: Language, random: Random): string {
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

/** Paragraphs of a body, greeting first and name last. */
export function paragraphs(language: Language, random: Random, signer: string): string[] {
  const out = [random.pick(language.greetings)];
  const count = 1 + random.below(4);
  for (let paragraph = 0; paragraph < count; paragraph += 1) {
    const sentences = Array.from({ length: 1 + random.below(6) }, () =>
      filled(random.pick(language.sentences), language, random),
    );
    out.push(sentences.join(' '));
  }
  out.push(`${random.pick(language.closings)}\r\n${signer}`);
  return out;
}

/** Paragraphs as plain text with lines of about 72 characters. */
export function asText(blocks: readonly string[]): string {
  return `${blocks.map(wrapped).join('\r\n\r\n')}\r\n`;
}

function wrapped(block: string): string {
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

export function quoted(text: string): string {
  return text
    .trimEnd()
    .split('\r\n')
    .map((line) => (line === '' ? '>' : `> ${line}`))
    .join('\r\n');
}

export interface HtmlParts {
  readonly charset: string;
  readonly blocks: readonly string[];
  /** Content-ID of a picture at the end. */
  readonly pictureId: string | null;
  /** Where links lead and pictures come from, as in newsletters. */
  readonly links: readonly string[];
}

/** The same as HTML, with the dead weight that programs put into theirs. */
export function asHtml({ charset, blocks, pictureId, links }: HtmlParts): string {
  const body = blocks.map(
    (block) =>
      `<p style="margin:0 0 12px 0;line-height:1.5;mso-line-height-rule:exactly">${escaped(block).replaceAll('\r\n', '<br>')}</p>`,
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

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
