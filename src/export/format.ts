export const EXPORT_FORMATS = ['eml', 'zip', 'mbox', 'maildir'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];
