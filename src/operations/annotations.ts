import { orNull, patchedText } from '../kernel/text.ts'

/** Description and metadata, common to most resources. */
export type AnnotationColumns = { description: string | null; metadata: string | null }
type Sent = { description?: string | null; metadata?: string | null }

export const newAnnotations = (sent: Sent): AnnotationColumns => ({
  description: orNull(sent.description),
  metadata: orNull(sent.metadata),
})

export const patchedAnnotations = (before: AnnotationColumns, sent: Sent): AnnotationColumns => ({
  description: patchedText(before.description, sent.description),
  metadata: patchedText(before.metadata, sent.metadata),
})

/** Responses omit unset ones. */
export const shownAnnotations = ({
  description,
  metadata,
}: AnnotationColumns): { description?: string; metadata?: string } => ({
  ...(description !== null && { description }),
  ...(metadata !== null && { metadata }),
})
