type Rule = {
  action: string
  cidr: string
  description?: string | null
  metadata?: string | null
  expires_at?: string | null
}

/**
 * A rule as one line of text with all its JSON fields. Characters that a comment cannot contain, such as line breaks,
 * are percent-encoded. `metadata=` without a value clears the metadata; omitting it would keep the rule's current one.
 */
export function toRuleLine({ action, cidr, description, metadata, expires_at }: Rule): string {
  const words = [action, cidr]
  if (expires_at) words.push(`expires=${expires_at}`)
  words.push(`metadata=${encodeURIComponent(metadata ?? '')}`)
  if (description) {
    const fitsComment = description === description.trim() && !/[\r\n]/.test(description)
    words.push(fitsComment ? `# ${description}` : `description=${encodeURIComponent(description)}`)
  }
  return words.join(' ')
}
