import { Link } from 'react-router'
import { Icon } from '../../ui/icons.tsx'
import type { AttentionItem } from './use_attention.tsx'

const shown = 8

export function AttentionList({ items }: { items: readonly AttentionItem[] }) {
  return (
    <ul className="attention" aria-label="Needs attention">
      {items.slice(0, shown).map(({ id, tone, title, detail, to, action }) => (
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
      {items.length > shown && <li className="more">and {items.length - shown} more</li>}
    </ul>
  )
}
