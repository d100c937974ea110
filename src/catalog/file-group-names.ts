/** Groups of attachments for users. Separate from the matching rules: browsers load only the names. */
export const FILE_GROUPS = ['pdf', 'pictures', 'documents', 'tables', 'archives', 'other'] as const;
export type FileGroup = (typeof FILE_GROUPS)[number];
