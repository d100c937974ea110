import type { SearchNode, TextNode } from '../../search/ast.ts';
import { ftsString } from '../../search/fts-text.ts';
import { type Snippet, snippet, soughtWords } from '../../search/snippet.ts';
import { attachmentTexts } from '../attachment-texts.ts';
import type { Connection } from '../connection.ts';
import { query } from '../query.ts';

/** An attachment of a hit in whose text something sought stands. */
export interface MatchedAttachment {
  readonly number: number;
  readonly filename: string | null;
  /** A piece of its text around what matched: on one line, and not made safe for terminals. */
  readonly snippet: string;
  /** The matches within `snippet`. */
  readonly matches: Snippet['matches'];
}

/** Attachments of one message whose texts are unpacked, the first ones; each may be half a million characters. */
const UNPACKED = 16;

const HAS_ANY = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select('number')
    .where('docid', '=', p.docid)
    .limit((eb) => eb.lit(1)),
);
const IN_ATTACHMENTS =
  'SELECT rowid AS docid FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = ?';

/**
 * Finds the attachments of a message that show what a query looks for. Texts are unpacked only where the index
 * says that something sought stands in one of them.
 */
export function attachmentMatcher(
  connection: Connection,
  node: SearchNode,
): (docid: number) => MatchedAttachment[] {
  // `body:` and other fields are not looked for in attachments.
  const words = soughtWords(node, ['any']);
  const strings = soughtTexts(node).flatMap(({ text, prefix }) => ftsString(text, prefix) ?? []);
  if (words.length === 0 || strings.length === 0) return () => [];
  const expression = `att_text : (${strings.join(' OR ')})`;
  const indexed = (docid: number): boolean => {
    if (connection.statement(HAS_ANY).get({ docid }) === undefined) return false;
    return [...connection.text(IN_ATTACHMENTS, [expression, BigInt(docid)])].length > 0;
  };
  return (docid) => {
    if (!indexed(docid)) return [];
    const found: MatchedAttachment[] = [];
    let unpacked = 0;
    for (const { number, filename, text } of attachmentTexts(connection, docid)) {
      unpacked += 1;
      if (unpacked > UNPACKED) break;
      const shown = snippet(text, words);
      if (shown !== undefined)
        found.push({ number, filename, snippet: shown.text, matches: shown.matches });
    }
    return found;
  };
}

/** The words and phrases that are looked for everywhere, and not excluded. */
function soughtTexts(node: SearchNode): TextNode[] {
  switch (node.kind) {
    case 'and':
    case 'or':
      return node.nodes.flatMap(soughtTexts);
    case 'near':
      return node.terms.filter(({ field }) => field === 'any');
    case 'text':
      return node.field === 'any' ? [node] : [];
    default:
      return [];
  }
}
