import { useEffect, useState } from 'react'

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })
const absolute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
const steps = [
  [60, 'second'],
  [60, 'minute'],
  [24, 'hour'],
  [30, 'day'],
  [12, 'month'],
  [Number.POSITIVE_INFINITY, 'year'],
] as const

export function ago(moment: string, now = Date.now()): string {
  let distance = (Date.parse(moment) - now) / 1000
  if (Math.abs(distance) < 5) return 'just now'
  for (const [size, unit] of steps) {
    if (Math.abs(distance) < size) return relative.format(Math.round(distance), unit)
    distance /= size
  }
  return moment
}

/** How long ago, and the exact time for whoever points at it. */
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
