package usage

// Level is how close to its limit a consumer is.
type Level int

const (
	// Below means that it uses less than the threshold.
	Below Level = iota
	// Near means that it uses as much as the threshold, or more.
	Near
	// Reached means that it uses all that it is granted.
	Reached
	// Exceeded means that it uses more than it is granted now.
	Exceeded
)

// hysteresisPercent is by how much, in percent of the limit, less has to be used than what brought a consumer to a level,
// before it is at a lower one. So one that goes up and down by little stays where it is.
const hysteresisPercent = 5

// Level returns how close to its limit a consumer is that was that close before, by its threshold.
func (u Usage) Level(before Level, thresholdPercent int) Level {
	for level := Exceeded; level > Below; level-- {
		if u.is(level, thresholdPercent, 0) || level <= before && u.is(level, thresholdPercent, hysteresisPercent) {
			return level
		}
	}
	return Below
}

// is tells whether a consumer is at a level, or less than so many percent of its limit below it. What exceeds a limit does,
// or does not.
func (u Usage) is(level Level, thresholdPercent, lessPercent int) bool {
	switch {
	case u.Used == 0:
		return false
	case level == Exceeded:
		return u.Used > u.Limit
	case level == Reached:
		thresholdPercent = 100
	}
	used, bound := float64(u.Used)*100, float64(u.Limit)*float64(thresholdPercent-lessPercent)
	return used > bound || used == bound && lessPercent == 0
}
