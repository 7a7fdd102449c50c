/* Dates: the calendars of CF, texts that name a date or a longer time, and back.
 *
 * Seconds count from 1970-01-01 of the date's own calendar, without leap seconds. So numbers of two
 * calendars are not compared, but for those of CALENDAR_STANDARD and CALENDAR_GREGORIAN, which
 * differ only in how dates before 1582-10-15 are called. Pure; any thread.
 */
#ifndef PENSTOCK_BASE_DATE_H
#define PENSTOCK_BASE_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum date_calendar {
    CALENDAR_STANDARD,  /* Julian before 1582-10-15, which follows 1582-10-04 */
    CALENDAR_GREGORIAN, /* proleptic: always */
    CALENDAR_JULIAN,
    CALENDAR_NOLEAP,
    CALENDAR_ALL_LEAP,
    CALENDAR_360_DAY, /* each month has 30 days */
};

/* The calendar that CF calls so: "standard" and "gregorian" (or ""), "proleptic_gregorian",
 * "julian", "noleap" and "365_day", "all_leap" and "366_day", "360_day". False: none. */
bool date_calendar_find(const char *name, enum date_calendar *ret_calendar);

/* Whether numbers of the two count the same seconds. */
bool date_calendars_agree(enum date_calendar a, enum date_calendar b);

/* Days from 1970-01-01 on to a date of the years 1 to 9999. False: there is no such date. */
bool date_days(enum date_calendar calendar, int year, int month, int day, int64_t *ret_days);

/* The time that a text names, in seconds: [begin, end). */
struct date_period {
    int64_t begin, end;
    bool is_year; /* the text has nothing but digits */
};

/* Of the first `length` bytes: "2015" is a year; "2015-06", "2015-06-30", "2015-06-30T18" (or with
 * a space), "2015-06-30T18:00" and "2015-06-30T18:00:00" are a month, a day, an hour, a minute and
 * a second. A fraction of zeros may follow a second, and "Z" or "+00:00" a time. False: the text is
 * no such date of the calendar. */
bool date_parse(enum date_calendar calendar, const char *text, size_t length,
                struct date_period *ret_period);

/* As date_parse(), in any calendar: days up to 31 in each month. */
bool date_is_meant(const char *text, size_t length);

/* "2016-12-31", "2016-12-31 18:00" or "2016-12-31 18:00:30". False: the year is not in 1 to 9999,
 * and ret_text is untouched. */
enum { DATE_BYTES = 32 };
bool date_write(enum date_calendar calendar, int64_t seconds, char ret_text[DATE_BYTES]);

#endif
