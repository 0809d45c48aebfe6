import { useEffect, useState } from 'react'
import { Icon } from './icons.tsx'

/** An id that copies itself. Hidden on phones unless it is essential there. */
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
          // Browsers allow clipboard access only over HTTPS and on localhost; the id can still be selected.
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
