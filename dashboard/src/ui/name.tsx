/** The name with the id below it; only the id if there is no name. */
export function Name({ id, text }: { id: string; text?: string }) {
  if (!text) return <span className="mono id">{id}</span>
  return (
    <span className="name">
      <span>{text}</span>
      <span className="mono id fine">{id}</span>
    </span>
  )
}
