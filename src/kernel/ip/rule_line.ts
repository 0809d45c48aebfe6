type Rule = {
  action: string
  cidr: string
  description?: string | null
  metadata?: string | null
  expires_at?: string | null
}

/**
 * A rule as a line of a rule set in text, with everything that JSON would say of it. What a comment cannot carry, such as
 * line breaks, goes percent-encoded. `metadata=` without a value says that there is none: a line without it would leave
 * what the rule has.
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
