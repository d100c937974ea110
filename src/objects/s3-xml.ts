import { Parser } from 'htmlparser2';

/** Answers of S3 have five levels at most. The parser keeps the open elements in an array whose front it shifts. */
const MOST_LEVELS = 16;
/** A page of 1,000 objects has about 10,000. */
const MOST_ELEMENTS = 200_000;

/** An element of an answer, by its name without a prefix. */
export interface XmlElement {
  readonly name: string;
  readonly text: string;
  readonly children: readonly XmlElement[];
}

interface Growing {
  readonly name: string;
  text: string;
  readonly children: Growing[];
}

/**
 * Returns the root of an XML document, or undefined for what is none, is incomplete, or nests deeper than any answer.
 * Knows no entities but XML's own, and opens nothing.
 */
export function parseXml(bytes: Buffer): XmlElement | undefined {
  const open: Growing[] = [];
  let root: Growing | undefined;
  let elements = 0;
  let isSound = true;
  const parser = new Parser(
    {
      onopentag(tag) {
        const element = { name: tag.slice(tag.indexOf(':') + 1), text: '', children: [] };
        elements += 1;
        if (elements > MOST_ELEMENTS || open.length >= MOST_LEVELS) isSound = false;
        // A second root, or too much: what else comes is not looked at.
        if (!isSound || (open.length === 0 && root !== undefined)) {
          isSound = false;
          parser.pause();
          return;
        }
        root ??= element;
        open.at(-1)?.children.push(element);
        open.push(element);
      },
      ontext(text) {
        const element = open.at(-1);
        if (element !== undefined) element.text += text;
      },
      onclosetag() {
        open.pop();
      },
    },
    { xmlMode: true, decodeEntities: true },
  );
  parser.write(bytes.toString('utf8'));
  // The parser would close at its end what the document does not.
  return isSound && open.length === 0 ? root : undefined;
}

/** Returns the text of a child; empty where there is none. */
export function textOf(element: XmlElement, name: string): string {
  return element.children.find((child) => child.name === name)?.text ?? '';
}

/** Returns the children of a name. */
export function childrenOf(element: XmlElement, name: string): XmlElement[] {
  return element.children.filter((child) => child.name === name);
}

/** Returns a text for the inside of an element. */
export function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
