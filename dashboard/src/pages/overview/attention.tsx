import { useState } from 'react'
import { Link } from 'react-router'
import { Button } from '../../ui/button.tsx'
import { Icon } from '../../ui/icons.tsx'
import type { AttentionItem } from './use_attention.tsx'

const shown = 8

export function AttentionList({ items }: { items: readonly AttentionItem[] }) {
  const [isWhole, setWhole] = useState(false)
  const rest = isWhole ? 0 : items.length - shown
  return (
    <ul className="attention" aria-label="Needs attention">
      {items.slice(0, isWhole ? items.length : shown).map(({ id, tone, title, detail, to, action }) => (
        <li key={id}>
          <span className={tone}>
            <Icon name={tone} />
          </span>
          <div>
            <p className="strong">{title}</p>
            <p>{detail}</p>
          </div>
          <Link className="button quiet" to={to}>
            {action}
            <Icon name="right" />
          </Link>
        </li>
      ))}
      {rest > 0 && (
        <li className="more">
          <Button kind="quiet" onPress={() => setWhole(true)}>
            {`Show ${rest} more`}
          </Button>
        </li>
      )}
    </ul>
  )
}
