import { useEffect, useState } from 'react'
import { ago } from '../../../src/kernel/ago.ts'

const absolute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })

/** How long ago, with the exact time as a tooltip. */
export function Ago({ at }: { at: string }) {
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 15_000)
    return () => clearInterval(timer)
  }, [])
  return (
    <time dateTime={at} title={absolute.format(new Date(at))}>
      {ago(at)}
    </time>
  )
}
