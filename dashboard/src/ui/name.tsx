/** What people call it, and the id beneath; the id alone when it has no name. */
export function Name({ id, text }: { id: string; text?: string }) {
  if (!text) return <span className="mono id">{id}</span>
  return (
    <span className="name">
      <span>{text}</span>
      <span className="mono id fine">{id}</span>
    </span>
  )
}
