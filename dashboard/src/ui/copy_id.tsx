import { useEffect, useState } from 'react'
import { Icon } from './icons.tsx'

/** An id, as people paste it. A phone has no room for it, unless it is what the place is about. */
export function CopyId({ id, isAlways }: { id: string; isAlways?: boolean }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return
    const timer = setTimeout(() => setCopied(false), 2_000)
    return () => clearTimeout(timer)
  }, [isCopied])
  return (
    <span className={isAlways ? 'id mono' : 'id mono hide-small'}>
      {id}
      <button
        type="button"
        className="copy-small"
        aria-label="Copy ID"
        onClick={() => {
          // Browsers give the clipboard to pages over HTTPS and on localhost only; the id can be selected anyway.
          navigator.clipboard?.writeText(id).then(
            () => setCopied(true),
            () => {},
          )
        }}
      >
        <Icon name={isCopied ? 'allowed' : 'copy'} />
      </button>
      <span className="for-readers" role="status">
        {isCopied && 'ID copied'}
      </span>
    </span>
  )
}
