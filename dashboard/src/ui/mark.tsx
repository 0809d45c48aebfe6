export function Mark() {
  return (
    <span className="mark" aria-hidden="true">
      <svg viewBox="0 0 32 32" focusable="false">
        <title>Gatehouse</title>
        <path d="M8 26V14a8 8 0 0 1 16 0v12M13 26V15a3 3 0 0 1 6 0v11" />
      </svg>
    </span>
  )
}
