type Props = { current: number; behind: number; offline?: number }

/** One bar per node: applied, behind, not live. The text beside them says the same. */
export function NodeBars({ current, behind, offline = 0 }: Props) {
  const bars = [
    ...Array<string>(Math.min(current, 12)).fill('current'),
    ...Array<string>(Math.min(behind, 6)).fill('behind'),
    ...Array<string>(Math.min(offline, 6)).fill('offline'),
  ]
  return (
    <span className="node-bars" aria-hidden="true">
      {bars.map((state, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the bars have nothing but their place.
        <i key={index} className={state} />
      ))}
    </span>
  )
}
